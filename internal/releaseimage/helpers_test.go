package releaseimage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// TestMain keeps the settings of the machine and of its user away from the tests.
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

// site is a registry in a test.
type site struct {
	t      *testing.T
	host   string
	client *image.Client
	// change, if set, answers a request itself by true.
	change func(w http.ResponseWriter, r *http.Request) bool
}

func newSite(t *testing.T) *site {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := &site{t: t, client: image.NewClient(image.Options{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.change == nil || !s.change(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	_, s.host, _ = strings.Cut(server.URL, "://")

	return s
}

func (s *site) clients(string) *image.Client { return s.client }

// push pushes an image with files, and gives it by digest.
func (s *site) push(name string, labels, files map[string]string) string {
	s.t.Helper()
	spec := image.Spec{Labels: labels, Created: time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC), Layers: []image.Layer{{}}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		spec.Layers[0].Files = append(spec.Layers[0].Files, image.File{Path: file, Content: []byte(files[file])})
	}

	built, err := image.Build(spec)
	if err != nil {
		s.t.Fatal(err)
	}

	return s.deliver(name, built)
}

func (s *site) deliver(name string, built ...*image.Built) string {
	s.t.Helper()
	canonical, err := s.client.Push(s.t.Context(), s.host+"/"+name, nil, built...)
	if err != nil {
		s.t.Fatal(err)
	}
	return canonical
}

// manifest is a ConfigMap that every cluster has.
func manifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  annotations:\n    %s%s: \"true\"\ndata:\n  value: %q\n",
		name, release.AnnotationIncludePrefix, release.DefaultProfile, value)
}

// operator is an image that brings manifests.
func (s *site) operator(name string, labels map[string]string, manifests map[string]string) string {
	s.t.Helper()
	all := map[string]string{LabelOperator: "true"}
	maps.Copy(all, labels)
	files := map[string]string{}
	for file, content := range manifests {
		files[path.Join("/manifests", file)] = content
	}

	return s.push(name, all, files)
}

// base is an image of the program that applies releases.
func (s *site) base() string {
	s.t.Helper()
	return s.push("cvo:v1", nil, map[string]string{
		"/usr/bin/program": "program", "/manifests/0000_00_cluster-version-operator_01.yaml": manifest("own", "{{.ReleaseImage}}"),
	})
}

// compose puts a release together, which must succeed.
func compose(t *testing.T, b *Build) *Composed {
	t.Helper()
	composed, err := b.Compose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return composed
}

// release pushes a release.
func (s *site) release(name string, b *Build) string {
	s.t.Helper()
	b.Clients = s.clients
	built, err := compose(s.t, b).Build(s.t.Context(), s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.deliver(name, built...)
}

// folder is one in memory.
func folder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// listing is image-references.
func listing(images map[string]string) string {
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(images)) {
		tags = append(tags, fmt.Sprintf(`{"name":%q,"from":{"kind":"DockerImage","name":%q}}`, name, images[name]))
	}
	return fmt.Sprintf(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[%s]}}`, strings.Join(tags, ","))
}

// get reads what the registry has, as JSON if it is to be decoded.
func (s *site) get(path string, into any) []byte {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.host+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}

	data := s.do(request)
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			s.t.Fatal(err)
		}
	}

	return data
}

func (s *site) do(request *http.Request) []byte {
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

// pushLayer pushes an image with one layer as it is, under the tag v1.
func (s *site) pushLayer(repository string, layer []byte) {
	s.t.Helper()
	put := func(path, mediaType string, data []byte) imgspecv1.Descriptor {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, "http://"+s.host+"/v2/"+repository+path, bytes.NewReader(data))
		if err != nil {
			s.t.Fatal(err)
		}

		request.Header.Set("Content-Type", mediaType)
		s.do(request)
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
