package updateservice

import (
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// TestMain isolates the tests from the settings of the machine and user.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "mainstay-updateservice-test-")
	if err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"} {
		if err := os.Setenv(name, home); err != nil {
			log.Fatal(err)
		}
	}

	code := env.Run(m)
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// testRegistry is a registry with a repository of releases.
type testRegistry struct {
	t          *testing.T
	server     *ociregistry.Server
	repository string
	client     *image.Client

	mu sync.Mutex
	// fault handles requests instead of the registry, which is its argument next. Nil means that there is no fault.
	fault    func(w http.ResponseWriter, r *http.Request, next http.Handler)
	requests int // requests of manifests and blobs
}

func newTestRegistry(t *testing.T) *testRegistry {
	t.Helper()
	i := &testRegistry{t: t, client: image.NewClient(image.Options{Insecure: true})}
	handler := ociregistry.NewHandler()
	i.server = ociregistry.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		fault := i.fault
		if r.Method == http.MethodGet && (strings.Contains(r.URL.Path, "/blobs/") || strings.Contains(r.URL.Path, "/manifests/")) {
			i.requests++
		}

		i.mu.Unlock()
		if fault != nil {
			fault(w, r, handler)
			return
		}

		handler.ServeHTTP(w, r)
	}))

	i.repository = i.server.Host + "/platform/release"

	return i
}

// setFault sets the handler of requests instead of the registry. Nil ends the fault.
func (i *testRegistry) setFault(fault func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault = fault
}

// answerNotFound is the fault of a registry that has lost all content.
func answerNotFound(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	http.Error(w, "lost", http.StatusNotFound)
}

func (i *testRegistry) requestCount() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

// buildImage builds an image from files.
func (i *testRegistry) buildImage(architecture string, files map[string]string) *image.Built {
	i.t.Helper()
	layer := image.Layer{}
	for name, text := range files {
		layer.Files = append(layer.Files, image.File{Path: name, Content: []byte(text)})
	}

	base := image.Layer{Files: []image.File{{Path: "/usr/bin/cluster-version-operator", Content: []byte("program"), Executable: true}}}
	b, err := image.Build(image.Spec{OS: "linux", Architecture: architecture, Layers: []image.Layer{base, layer}})
	if err != nil {
		i.t.Fatal(err)
	}

	return b
}

// newReleaseFiles returns the files of a release.
func newReleaseFiles(version string, more map[string]string, previous ...string) map[string]string {
	metadata, err := release.Metadata{Kind: release.KindMetadata, Version: version, Previous: previous, Metadata: more}.Encode()
	if err != nil {
		panic(err) // the test is wrong
	}

	references, err := release.ImageReferences{Name: version}.Encode()
	if err != nil {
		panic(err) // the test is wrong
	}

	return map[string]string{"/" + release.FileMetadata: string(metadata), "/" + release.FileImages: string(references)}
}

// pushImages pushes an image, or an index of several, and returns its digest.
func (i *testRegistry) pushImages(tag string, built ...*image.Built) string {
	i.t.Helper()
	digest, err := i.client.Push(i.t.Context(), i.repository+":"+tag, nil, built...)
	if err != nil {
		i.t.Fatal(err)
	}
	_, digest, _ = strings.Cut("@"+digest, "sha256:")
	return "sha256:" + digest
}

func (i *testRegistry) pushRelease(version string, previous ...string) string {
	i.t.Helper()
	return i.pushImages(version+"-x86_64", i.buildImage("amd64", newReleaseFiles(version, map[string]string{"url": "https://example.com/" + version}, previous...)))
}

// newDataFolder creates a graph-data folder.
func newDataFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	writeData(t, dir, map[string]string{"version": "1.1.0"})
	writeData(t, dir, files)
	return dir
}

func writeData(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newScannedService returns a service after its first scan.
func newScannedService(t *testing.T, o Options) *Service {
	t.Helper()
	s := newService(t, o)
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func newService(t *testing.T, o Options) *Service {
	t.Helper()
	o.Images.Insecure = true
	if o.Log.IsZero() {
		o.Log = logr.Discard()
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// getPath requests a path below the prefix of a service.
func getPath(s *Service, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/api/upgrades_info"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// describeGraph requests a graph and returns its versions and edges as text.
func describeGraph(t *testing.T, s *Service, query string) string {
	t.Helper()
	w := getPath(s, "/graph?"+query)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: got %d %s, want status 200", query, w.Code, w.Body)
	}

	g, err := cincinnati.Parse(w.Body.Bytes())
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}

	var all []string
	for _, node := range g.Nodes {
		all = append(all, node.Version)
	}

	for _, e := range g.Edges {
		all = append(all, g.Nodes[e.From].Version+">"+g.Nodes[e.To].Version)
	}

	for _, entry := range g.ConditionalEdges {
		for _, e := range entry.Edges {
			all = append(all, e.From+"?"+e.To+":"+entry.Risks[0].Name)
		}
	}

	return strings.Join(all, " ")
}

const stable = "name: stable-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n"

const issue = "to: 4.1.2\nfrom: 4[.]1[.]0\nurl: https://example.com/a\nname: A\nmessage: a happens.\nmatchingRules: [{type: PromQL, promql: {promql: up}}]\n"
