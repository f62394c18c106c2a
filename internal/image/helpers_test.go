package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/registry"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestMain isolates the tests from the settings of the machine and of its user.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "mainstay-image-test-")
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

// middleware handles a request, or returns false to pass it to the registry.
type middleware func(w http.ResponseWriter, r *http.Request) bool

// newRegistry starts a registry and returns its host:port.
func newRegistry(t *testing.T, wrap middleware) string {
	t.Helper()
	server := newServer(t, wrap)
	t.Cleanup(server.Close)
	return hostOf(server)
}

// newServer starts a registry, which the caller closes.
func newServer(t *testing.T, wrap middleware) *httptest.Server {
	t.Helper()
	return httptest.NewServer(registryHandler(wrap))
}

func hostOf(server *httptest.Server) string {
	_, host, _ := strings.Cut(server.URL, "://")
	return host
}

func registryHandler(wrap middleware) http.Handler {
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrap == nil || !wrap(w, r) {
			handler.ServeHTTP(w, r)
		}
	})
}

// entry is one entry of a tar archive in a test.
type entry struct {
	name string
	kind byte // zero is a file, or a directory if the name ends with a slash
	link string
	data string
	mode int64
}

func tarball(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode}
		switch {
		case e.kind != 0:
		case strings.HasSuffix(e.name, "/"):
			header.Typeflag = tar.TypeDir
		default:
			header.Typeflag, header.Size = tar.TypeReg, int64(len(e.data))
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, e.data); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func gunzip(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return plain
}

// imageOf builds an image with unchanged layers.
func imageOf(t *testing.T, mediaType string, layers ...[]byte) *Built {
	t.Helper()
	built, err := Build(Spec{OS: "linux", Architecture: "amd64"})
	if err != nil {
		t.Fatal(err)
	}

	for _, data := range layers {
		built.layers = append(built.layers, newBuiltBlob(mediaType, data))
	}

	manifest, err := json.Marshal(built.newManifest(nil))
	if err != nil {
		t.Fatal(err)
	}

	built.manifest = newBuiltBlob(imgspecv1.MediaTypeImageManifest, manifest)
	return built
}

// catalogImage returns a small valid image.
func catalogImage(t *testing.T) *Built {
	t.Helper()
	built, err := Build(CatalogSpec(fstest.MapFS{"foo/catalog.yaml": {Data: []byte("schema: olm.package\nname: foo\n")}}))
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func pushImage(t *testing.T, ref string, images ...*Built) string {
	t.Helper()
	canonical, err := NewClient(Options{}).Push(t.Context(), ref, nil, images...)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

// pullAndExtract returns the files below prefix.
func pullAndExtract(ctx context.Context, t *testing.T, client *Client, ref, prefix string) (map[string]string, error) {
	t.Helper()
	img, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = img.Close() }()

	dir := t.TempDir()
	if _, err := img.Extract(ctx, prefix, dir); err != nil {
		return nil, err
	}

	return readTree(t, dir), nil
}

// readTree returns the files of a directory with their content. The name of a directory
// ends with a slash. The content of a link is "-> target".
func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}

		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}

		switch d.Type() {
		case fs.ModeDir:
			got[name+"/"] = ""
		case fs.ModeSymlink:
			target, err := os.Readlink(file)
			got[name] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(file)
			got[name] = string(data)
			return err
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return got
}

// wantError fails the test unless err is an *Error of the kind whose message has all parts.
func wantError(t *testing.T, err error, kind Kind, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want an *Error", err, err)
	}
	if e.Kind != kind {
		t.Errorf("got kind %s, want %s: %v", e.Kind, kind, err)
	}

	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
