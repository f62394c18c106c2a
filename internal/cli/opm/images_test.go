package opm_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/publish"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// registryFixture is a registry that records its requests.
type registryFixture struct {
	address string
	// layers counts the blobs that were sent to clients.
	layers atomic.Int32
	// login is the required Authorization header, if it is set.
	login string
}

// newRegistryFixture starts a registry with the bundle kettle:v0.1.0 and the catalog in testdata as catalog:v1.
func newRegistryFixture(t *testing.T) *registryFixture {
	t.Helper()
	i := &registryFixture{}
	inner := ociregistry.NewHandler()
	i.address = ociregistry.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.login != "" && r.Header.Get("Authorization") != i.login {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			i.layers.Add(1)
		}
		inner.ServeHTTP(w, r)
	})).Host
	push := publish.BundlePush{Dir: "testdata/bundle", Ref: i.address + "/kettle:v0.1.0"}
	if _, err := push.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	build := publish.CatalogBuild{Dir: "testdata/catalog", Push: i.address + "/catalog:v1"}
	if _, err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	return i
}

// pushPlatforms pushes an image for several architectures, which has no files.
func pushPlatforms(t *testing.T, ref string, architectures ...string) {
	t.Helper()
	var specs []image.Spec
	for _, architecture := range architectures {
		specs = append(specs, image.Spec{OS: "linux", Architecture: architecture})
	}
	ociregistry.Push(t, ref, specs...)
}

// Output of commands on images.
func TestImages(t *testing.T) {
	i := newRegistryFixture(t)
	ociregistry.Push(t, i.address+"/bare:v1", image.Spec{Layers: []image.Layer{{Files: []image.File{{Path: "/x"}}}}})
	ociregistry.Push(t, i.address+"/labelled:v1", image.Spec{Labels: map[string]string{"b": "2", "a": "1"}, Layers: []image.Layer{{Files: []image.File{{Path: "/x"}}}}})
	ociregistry.Push(t, i.address+"/lost:v1", image.Spec{Labels: map[string]string{image.LabelConfigs: "/configs"}, Layers: []image.Layer{{Files: []image.File{{Path: "/x"}}}}})
	for name, line := range map[string]string{
		"render-bundle":     "render ADDRESS/kettle:v0.1.0",
		"render-migrated":   "render ADDRESS/kettle:v0.1.0 --migrate-level bundle-object-to-csv-metadata -o yaml",
		"render-bare":       "render ADDRESS/bare:v1",
		"render-labelled":   "render ADDRESS/labelled:v1",
		"render-lost":       "render ADDRESS/lost:v1",
		"render-not-there":  "render ADDRESS/pan:v1",
		"render-template":   "render ADDRESS/kettle:v0.1.0 --image-ref-template other.example.com/x:v1 --migrate -o yaml",
		"list-packages":     "alpha list packages ADDRESS/catalog:v1",
		"list-bundle":       "alpha list packages ADDRESS/kettle:v0.1.0",
		"graph":             "alpha render-graph ADDRESS/catalog:v1 -p pot",
		"migrate-bundle":    "migrate ADDRESS/kettle:v0.1.0 testdata/none",
		"unpack-to-a-file":  "alpha bundle unpack ADDRESS/kettle:v0.1.0 -o testdata/catalog/about.json",
		"unpack-no-root-ca": "alpha bundle unpack ADDRESS/kettle:v0.1.0 -o testdata/none --root-ca testdata/catalog/about.json",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, "images/"+name, run(t, strings.ReplaceAll(line, "ADDRESS", i.address)))
		})
	}

	if fromFolder, fromImage := mustRun(t, "render", "testdata/catalog"), mustRun(t, "render", i.address+"/catalog:v1"); fromFolder != fromImage {
		t.Errorf("the image is rendered differently:\n%s", fromImage)
	}
}

// Unpacking writes the directories of the bundle and replaces existing files.
func TestUnpack(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	write(t, dir, "manifests/kettle.clusterserviceversion.yaml", "old")
	write(t, dir, "notes.txt", "stays")
	if r := run(t, "alpha bundle unpack "+i.address+"/kettle:v0.1.0 --out "+dir); r.code != 0 || r.out+r.errors != "" {
		t.Fatal(r)
	}

	for _, name := range []string{"manifests/kettle.clusterserviceversion.yaml", "metadata/annotations.yaml"} {
		want, err := os.ReadFile(filepath.Join("testdata/bundle", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}

	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error(err)
	}
}

// OLM_CACHE_DIR keeps pulled layers: they are not pulled again.
func TestCacheDir(t *testing.T) {
	i := newRegistryFixture(t)
	cache := t.TempDir()
	t.Setenv("OLM_CACHE_DIR", cache)
	i.layers.Store(0)
	first := mustRun(t, "render", i.address+"/catalog:v1")
	cold := i.layers.Swap(0)
	if second := mustRun(t, "render", i.address+"/catalog:v1"); second != first {
		t.Error("the second run has another result")
	}
	if warm := i.layers.Load(); warm >= cold {
		t.Errorf("got %d pulled blobs the first time, %d the second", cold, warm)
	}
	if entries, err := os.ReadDir(filepath.Join(cache, "images")); err != nil || len(entries) != 1 {
		t.Errorf("got the cache entries %v, error %v", entries, err)
	}
}

// REGISTRY_AUTH_FILE and DOCKER_CONFIG provide credentials. The first one has precedence.
func TestLogins(t *testing.T) {
	i := newRegistryFixture(t)
	i.login = "Basic Y29vazp0ZWE=" // cook:tea
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	ref := i.address + "/catalog:v1"
	if r := run(t, "alpha list packages "+ref); r.code != 1 {
		t.Fatal(r)
	}

	good := `{"auths":{"` + i.address + `":{"auth":"Y29vazp0ZWE="}}}`
	write(t, dir, "auth.json", good)
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(dir, "auth.json"))
	if r := run(t, "alpha list packages "+ref); r.code != 0 {
		t.Errorf("with REGISTRY_AUTH_FILE: %s", r)
	}

	write(t, dir, "auth.json", `{"auths":{"registry.example.com":{"auth":"Y29vazp0ZWE="}}}`)
	write(t, dir, "docker/config.json", good)
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker"))
	if r := run(t, "alpha list packages "+ref); r.code != 0 {
		t.Errorf("with DOCKER_CONFIG and a file without this registry: %s", r)
	}

	write(t, dir, "auth.json", `{"auths":{"`+i.address+`":{"auth":"Y29vazpjb2ZmZWU="}}}`)
	if r := run(t, "alpha list packages "+ref); r.code != 1 {
		t.Errorf("the login of REGISTRY_AUTH_FILE is not used: %s", r)
	}
	if r := run(t, "alpha list packages "+ref+" --authfile "+filepath.Join(dir, "docker/config.json")); r.code != 0 {
		t.Errorf("with --authfile: %s", r)
	}
}

// A registry with an untrusted certificate is rejected, unless verification is disabled.
func TestSkipTLSVerify(t *testing.T) {
	server := httptest.NewTLSServer(ociregistry.NewHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "https://")
	// With a certs.d directory, certificates of local registries are verified, too.
	certs := t.TempDir()
	write(t, certs, address+"/none.txt", "")
	push := publish.BundlePush{Dir: "testdata/bundle", Ref: address + "/kettle:v0.1.0", Registry: catalogs.Registry{SkipTLSVerify: true}}
	if _, err := push.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	line := "render " + address + "/kettle:v0.1.0 --cert-dir " + certs
	if r := run(t, line); r.code != 1 || !strings.Contains(r.errors, "certificate") {
		t.Errorf("without a flag: %.300s", r)
	}

	for _, flag := range []string{" --skip-tls-verify", " --use-http", " --skip-tls"} {
		if r := run(t, line+flag); r.code != 0 {
			t.Errorf("with %s: %s", flag, r)
		}
	}
}
