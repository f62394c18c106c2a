package opm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/publish"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
)

// pushTwoBundles pushes a second version of the kettle, which replaces the first, and a pot.
func pushTwoBundles(t *testing.T, address string) {
	t.Helper()
	csv, err := os.ReadFile("testdata/bundle/manifests/kettle.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}

	annotations, err := os.ReadFile("testdata/bundle/metadata/annotations.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for ref, names := range map[string]*strings.Replacer{
		"/kettle:v0.2.0": strings.NewReplacer("0.1.0", "0.2.0", "spec:\n  displayName", "spec:\n  replaces: kettle.v0.1.0\n  displayName"),
		"/pot:v0.1.0":    strings.NewReplacer("kettle", "pot"),
	} {
		dir := t.TempDir()
		write(t, dir, "manifests/csv.yaml", names.Replace(string(csv)))
		write(t, dir, "metadata/annotations.yaml", names.Replace(string(annotations)))
		if _, err := (&publish.BundlePush{Dir: dir, Ref: address + ref}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Commands on a SQLite file: each step uses the result of the previous one.
func TestDatabase(t *testing.T) {
	i := newRegistryFixture(t)
	pushTwoBundles(t, i.address)
	dir := t.TempDir()
	for _, step := range []struct{ name, line string }{
		{"add", "registry add -d DIR/bundles.db -b ADDRESS/kettle:v0.1.0,ADDRESS/pot:v0.1.0"},
		{"add-update", "registry add -d DIR/bundles.db -b ADDRESS/kettle:v0.2.0 --mode semver"},
		{"add-again", "registry add -d DIR/bundles.db -b ADDRESS/kettle:v0.2.0"},
		{"add-no-mode", "registry add -d DIR/bundles.db -b ADDRESS/kettle:v0.2.0 --mode newest"},
		{"add-not-there", "registry add -d DIR/bundles.db -b ADDRESS/pan:v0.2.0"},
		{"add-catalog", "registry add -d DIR/bundles.db -b ADDRESS/catalog:v1"},
		{"list", "alpha list bundles DIR/bundles.db"},
		{"render", "render DIR/bundles.db -o yaml --migrate"},
		{"graph", "alpha render-graph DIR/bundles.db -p kettle"},
		{"migrate", "migrate DIR/bundles.db DIR/catalog"},
		{"validate", "validate DIR/catalog"},
		{"validate-file", "validate DIR/bundles.db"},
		{"rm-unknown", "registry rm -d DIR/bundles.db -o pan"},
		{"rm-permissive", "registry rm -d DIR/bundles.db -o pan,pot --permissive"},
		{"deprecate", "registry deprecatetruncate -d DIR/bundles.db -b ADDRESS/kettle:v0.2.0"},
		{"prune-stranded", "registry prune-stranded -d DIR/bundles.db"},
		{"prune", "registry prune -d DIR/bundles.db -p kettle,pan"},
		{"list-pruned", "alpha list bundles DIR/bundles.db"},
		{"no-file", "registry rm -d DIR/nothing.db -o kettle"},
		{"no-database", "registry rm -d testdata/catalog/about.json -o kettle"},
		{"rm-nothing", "registry rm -d DIR/bundles.db"},
		{"ca-and-verify", "registry add -d DIR/bundles.db -b x --ca-file x --skip-tls-verify"},
		{"ca-and-tool", "registry add -d DIR/bundles.db -b x --ca-file x -c podman"},
	} {
		line := strings.NewReplacer("ADDRESS", i.address, "DIR", dir).Replace(step.line)
		t.Run(step.name, func(t *testing.T) { check(t, "databases/"+step.name, run(t, line), dir, "DIR") })
	}
}

// As in existing catalogs, a property of a bundle may have no type. It is in the index and in the catalog that is rendered from
// it.
func TestAddPropertyWithoutType(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/bundle")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "metadata/properties.yaml", "properties:\n- value: {audience: kitchens}\n")
	ref, database := i.address+"/untyped:v0.1.0", filepath.Join(dir, "bundles.db")
	if _, err := (&publish.BundlePush{Dir: dir, Ref: ref}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "registry", "add", "-d", database, "-b", ref)

	untyped := regexp.MustCompile(`"type": "",\s+"value": \{\s+"audience": "kitchens"\s+\}`)
	for _, source := range []string{ref, database} {
		if out := mustRun(t, "render", source); !untyped.MatchString(out) {
			t.Errorf("render %s:\n%s\nwant the property without a type", source, out)
		}
	}
}

// The exit code indicates that a bundle was added before.
func TestExitCodes(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	mustRun(t, "registry", "add", "-d", dir+"/bundles.db", "-b", i.address+"/kettle:v0.1.0")
	if r := run(t, "registry add -d "+dir+"/bundles.db -b "+i.address+"/kettle:v0.1.0"); r.code != 2 {
		t.Errorf("the same image: got %s", r)
	}
	if _, err := (&publish.BundlePush{Dir: "testdata/bundle", Ref: i.address + "/other:v0.1.0"}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "registry add -d "+dir+"/bundles.db -b "+i.address+"/other:v0.1.0"); r.code != 3 {
		t.Errorf("the same version: got %s", r)
	}
}

// Index images are built and edited without a container engine.
func TestIndexImages(t *testing.T) {
	i := newRegistryFixture(t)
	pushTwoBundles(t, i.address)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, line := range []string{
		"index add -b ADDRESS/kettle:v0.1.0,ADDRESS/pot:v0.1.0 -t ADDRESS/index:v1 -i scratch --push",
		"index add -b ADDRESS/kettle:v0.2.0 -f ADDRESS/index:v1 -t ADDRESS/index:v2 -i scratch --push",
		"index rm -o pot -f ADDRESS/index:v2 -t ADDRESS/index:v3 -i scratch --push --archive index.tar --oci-layout layout",
		"index prune -p kettle -f ADDRESS/index:v3 -t ADDRESS/index:v4 -i ADDRESS/index:v1 --push",
		"index prune-stranded -f ADDRESS/index:v4 --generate -d other.Dockerfile",
		"index add --bundles= -f ADDRESS/index:v2 -t ADDRESS/index:v5 -i ADDRESS/index:v1 --push",
		"index export -i ADDRESS/index:v2 -o kettle -f exported",
	} {
		if r := run(t, strings.ReplaceAll(line, "ADDRESS", i.address)); r.code != 0 {
			t.Fatal(r)
		}
	}

	if got, want := mustRun(t, "alpha", "list", "bundles", i.address+"/index:v2"), "kettle.v0.2.0  kettle.v0.1.0"; !strings.Contains(got, want) || !strings.Contains(got, "pot.v0.1.0") {
		t.Errorf("got v2:\n%s", got)
	}
	// Mirrors copy the related images, and the image of the bundle itself is one of them.
	if got, want := mustRun(t, "render", i.address+"/index:v2", "-o", "yaml"), "relatedImages:\n- image: "+i.address+"/kettle:v0.2.0\n"; !strings.Contains(got, want) {
		t.Errorf("v2:\n%s\nwant it to have:\n%s", got, want)
	}
	// Without bundles, the index is built again.
	if got, want := mustRun(t, "alpha", "list", "bundles", i.address+"/index:v5"), mustRun(t, "alpha", "list", "bundles", i.address+"/index:v2"); got != want {
		t.Errorf("got v5:\n%s\nwant v2:\n%s", got, want)
	}
	if got := mustRun(t, "alpha", "list", "bundles", i.address+"/index:v4"); strings.Contains(got, "pot") || !strings.Contains(got, "kettle.v0.2.0") {
		t.Errorf("got v4:\n%s", got)
	}

	for _, name := range []string{
		"index.tar", "layout/index.json", "layout/oci-layout", "database/index.db", "other.Dockerfile",
		"exported/kettle/package.yaml", "exported/kettle/0.2.0/csv.yaml",
	} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}

	dockerfile, err := os.ReadFile("other.Dockerfile")
	if err != nil || !strings.HasPrefix(string(dockerfile), "FROM quay.io/operator-framework/opm:latest\n") {
		t.Errorf("Dockerfile %v:\n%s", err, dockerfile)
	}
}

// By default, a container engine builds the image from a Dockerfile.
func TestIndexByEngine(t *testing.T) {
	i := newRegistryFixture(t)
	engine := installFakeEngine(t, "podman")
	if r := run(t, "index add -b "+i.address+"/kettle:v0.1.0 -t example.com/index:v1 -i example.com/opm:v1"); r.code != 0 {
		t.Fatal(r)
	}

	asked := engine()
	if !strings.Contains(asked, "build --format docker -f index.Dockerfile -t example.com/index:v1 .\n") ||
		!strings.Contains(asked, "FROM example.com/opm:v1\n") || !strings.Contains(asked, "database/index.db") {
		t.Errorf("got the calls of the engine:\n%s", asked)
	}

	t.Setenv("PATH", t.TempDir())
	if r := run(t, "index add -b "+i.address+"/kettle:v0.1.0 -u docker"); r.code != 1 || !strings.Contains(r.errors, "--push") {
		t.Error(r)
	}
}

// installFakeEngine adds a fake container engine to the path, which records its arguments. The returned function
// returns the recorded arguments.
func installFakeEngine(t *testing.T, name string) func() string {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\necho \"$@\" >> " + log + "\ncat *Dockerfile >> " + log + "\nls -d */* >> " + log + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		asked, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(asked)
	}
}

func TestIndexMistakes(t *testing.T) {
	i := newRegistryFixture(t)
	t.Setenv("PATH", t.TempDir())
	for name, line := range map[string]string{
		"tool-and-build-tool": "index add -b x -c podman -u docker",
		"no-build-tool":       "index add -b x -u none",
		"prune-no-tool":       "index prune -p x -f y -c none",
		"not-an-index":        "index rm -o kettle -f ADDRESS/catalog:v1",
		"a-bundle":            "index rm -o kettle -f ADDRESS/kettle:v0.1.0",
		"rm-without-index":    "index rm -o kettle",
		"push-to-nowhere":     "index add -b ADDRESS/kettle:v0.1.0 --push",
		"no-engine":           "index add -b ADDRESS/kettle:v0.1.0",
		"insecure":            "index export -i ADDRESS/kettle:v0.1.0 --skip-tls",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, "databases/index-"+name, run(t, strings.ReplaceAll(line, "ADDRESS", i.address)))
		})
	}
}

// The serving configuration matches the flags.
func TestServing(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	mustRun(t, "registry", "add", "-d", dir+"/bundles.db", "-b", i.address+"/kettle:v0.1.0")
	var got opm.Serving
	var blobs []string
	stopped := errors.New("stopped")
	options := opm.Options{Serve: func(ctx context.Context, s opm.Serving) error {
		got, blobs = s, nil
		if s.Blobs != nil {
			for meta, err := range s.Blobs {
				if err != nil {
					return err
				}
				blobs = append(blobs, meta.String())
			}
		}
		if _, bounded := ctx.Deadline(); bounded {
			return stopped
		}
		return nil
	}}

	serve := func(line string) result {
		t.Helper()
		return command{line: strings.Fields(line), options: options}.run(t)
	}
	if r := serve("serve testdata/catalog -p 1234 --cache-dir x --cache-only --cache-enforce-integrity=false -t log --pprof-addr="); r.code != 0 {
		t.Fatal(r)
	}
	if got.Folder != "testdata/catalog" || got.Address != ":1234" || got.CacheDir != "x" || !got.CacheOnly || got.TerminationLog != "log" ||
		got.EnforceIntegrity == nil || *got.EnforceIntegrity || got.PprofAddress != "" || got.Database != "" {
		t.Errorf("served: %+v", got)
	}
	if r := serve("serve testdata/catalog"); r.code != 0 || got.Address != ":50051" || got.EnforceIntegrity != nil ||
		got.TerminationLog != "/dev/termination-log" || got.PprofAddress != "localhost:6060" {
		t.Errorf("got served %+v\n%s", got, r)
	}
	if r := serve("registry serve -d " + dir + "/bundles.db"); r.code != 0 || got.Folder != "" || got.Database != dir+"/bundles.db" ||
		len(blobs) != 3 || !slices.ContainsFunc(blobs, func(s string) bool { return strings.Contains(s, "kettle.v0.1.0") }) {
		t.Errorf("got served %+v %v\n%s", got, blobs, r)
	}
	if r := serve("registry serve -d " + dir + "/bundles.db --timeout-seconds 60"); r.code != 1 || !strings.Contains(r.errors, "stopped") {
		t.Error(r)
	}
	if r := serve("registry serve -d " + dir + "/bundles.db --timeout-seconds soon"); r.code != 1 || !strings.Contains(r.errors, "invalid --timeout-seconds") {
		t.Error(r)
	}
	if r := run(t, "serve testdata/catalog"); r.code != 1 || !strings.Contains(r.errors, "cannot serve") {
		t.Errorf("without a server: got %s", r)
	}
}
