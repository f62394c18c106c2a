package releaseimage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// TestMain isolates the tests from the settings of the machine and user.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "mainstay-release-test-")
	if err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"} {
		if err := os.Setenv(name, home); err != nil {
			log.Fatal(err)
		}
	}

	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// fixture is a registry with a client.
type fixture struct {
	t      *testing.T
	host   string
	client *image.Client
	// change, if set, may handle a request itself. In this case, it returns true.
	change func(w http.ResponseWriter, r *http.Request) bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	handler := ociregistry.NewHandler()
	s := &fixture{t: t, client: image.NewClient(image.Options{})}
	s.host = ociregistry.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.change == nil || !s.change(w, r) {
			handler.ServeHTTP(w, r)
		}
	})).Host

	return s
}

func (s *fixture) clients(string) *image.Client { return s.client }

// pushImage pushes an image with files, and returns its reference by digest.
func (s *fixture) pushImage(name string, labels, files map[string]string) string {
	s.t.Helper()
	spec := image.Spec{Labels: labels, Created: time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC), Layers: []image.Layer{{}}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		spec.Layers[0].Files = append(spec.Layers[0].Files, image.File{Path: file, Content: []byte(files[file])})
	}

	built, err := image.Build(spec)
	if err != nil {
		s.t.Fatal(err)
	}

	return s.pushBuilt(name, built)
}

func (s *fixture) pushBuilt(name string, built ...*image.Built) string {
	s.t.Helper()
	canonical, err := s.client.Push(s.t.Context(), s.host+"/"+name, nil, built...)
	if err != nil {
		s.t.Fatal(err)
	}
	return canonical
}

// configMapManifest returns the manifest of a ConfigMap that belongs to every cluster.
func configMapManifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  annotations:\n    %s%s: \"true\"\ndata:\n  value: %q\n",
		name, release.AnnotationIncludePrefix, release.DefaultProfile, value)
}

// pushOperator pushes an image with manifests.
func (s *fixture) pushOperator(name string, labels map[string]string, manifests map[string]string) string {
	s.t.Helper()
	all := map[string]string{LabelOperator: "true"}
	maps.Copy(all, labels)
	files := map[string]string{}
	for file, content := range manifests {
		files[path.Join("/manifests", file)] = content
	}

	return s.pushImage(name, all, files)
}

// pushBase pushes an image of the program that applies releases.
func (s *fixture) pushBase() string {
	s.t.Helper()
	return s.pushImage("cvo:v1", nil, map[string]string{
		"/usr/bin/program": "program", "/manifests/0000_00_cluster-version-operator_01.yaml": configMapManifest("own", "{{.ReleaseImage}}"),
	})
}

// mustCompose composes a release, which must succeed.
func mustCompose(t *testing.T, b *Build) *Composed {
	t.Helper()
	composed, err := b.Compose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return composed
}

// pushRelease builds and pushes a release.
func (s *fixture) pushRelease(name string, b *Build) string {
	s.t.Helper()
	b.Clients = s.clients
	built, err := mustCompose(s.t, b).Build(s.t.Context(), s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.pushBuilt(name, built...)
}

// newFolder returns an in-memory directory.
func newFolder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// imageReferencesJSON returns an image-references file.
func imageReferencesJSON(images map[string]string) string {
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(images)) {
		tags = append(tags, fmt.Sprintf(`{"name":%q,"from":{"kind":"DockerImage","name":%q}}`, name, images[name]))
	}
	return fmt.Sprintf(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[%s]}}`, strings.Join(tags, ","))
}

// getFromRegistry reads a path of the registry, and decodes JSON if into is not nil.
func (s *fixture) getFromRegistry(path string, into any) []byte {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.host+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}

	data := s.doRequest(request)
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			s.t.Fatal(err)
		}
	}

	return data
}

func (s *fixture) doRequest(request *http.Request) []byte {
	s.t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s (%v): %s", request.Method, request.URL, response.Status, err, data)
	}

	return data
}

// pushLayer pushes an image with one unmodified layer, under the tag v1.
func (s *fixture) pushLayer(repository string, layer []byte) {
	s.t.Helper()
	put := func(path, mediaType string, data []byte) imgspecv1.Descriptor {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, "http://"+s.host+"/v2/"+repository+path, bytes.NewReader(data))
		if err != nil {
			s.t.Fatal(err)
		}

		request.Header.Set("Content-Type", mediaType)
		s.doRequest(request)
		return imgspecv1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	}

	blob := func(mediaType string, data []byte) imgspecv1.Descriptor {
		return put("/blobs/uploads/1?digest="+digest.FromBytes(data).String(), mediaType, data)
	}
	content := blob(imgspecv1.MediaTypeImageLayer, layer)
	config := blob(imgspecv1.MediaTypeImageConfig, []byte(`{"os":"linux","architecture":"amd64"}`))
	manifest, err := json.Marshal(imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest, Config: config, Layers: []imgspecv1.Descriptor{content},
	})
	if err != nil {
		s.t.Fatal(err)
	}

	put("/manifests/v1", imgspecv1.MediaTypeImageManifest, manifest)
}
