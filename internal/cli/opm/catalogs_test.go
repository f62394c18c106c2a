package opm_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// Output of commands on directories.
func TestFolders(t *testing.T) {
	for name, line := range map[string]string{
		"validate":                 "validate testdata/catalog",
		"validate-json":            "validate testdata/catalog -o json",
		"validate-yaml":            "validate testdata/catalog -o yaml",
		"validate-broken":          "validate testdata/broken",
		"validate-broken-json":     "validate testdata/broken -o json",
		"validate-broken-yaml":     "validate testdata/broken -o yaml",
		"validate-one-fault":       "validate testdata/fault",
		"validate-findings":        "validate testdata/findings",
		"validate-findings-strict": "validate testdata/findings --strict",
		"validate-findings-json":   "validate testdata/findings --strict -o json",
		"validate-strict":          "validate testdata/catalog --strict",
		"validate-format":          "validate testdata/broken -o xml",
		"validate-no-format":       "validate testdata/broken --output=",
		"validate-not-there":       "validate testdata/nothing -o json",
		"validate-file":            "validate testdata/catalog/about.json",
		"render":                   "render testdata/catalog",
		"render-yaml":              "render testdata/catalog -o yaml",
		"render-migrated":          "render testdata/catalog/pot --migrate -o yaml",
		"render-level-none":        "render testdata/catalog/pot --migrate-level none -o yaml",
		"render-level-unknown":     "render testdata/catalog --migrate-level newest",
		"render-two-levels":        "render testdata/catalog --migrate --migrate-level all",
		"render-format":            "render testdata/catalog -o table",
		"render-twice":             "render testdata/catalog/pot testdata/catalog/pot -o yaml --migrate",
		"render-file":              "render testdata/catalog/about.json",
		"render-short-name":        "render kettle",
		"render-no-tag":            "render registry.example.com/kettle",
		"render-tag-digest":        "render registry.example.com/kettle:v1@sha256:0123456789012345678901234567890123456789012345678901234567890123",
		"render-bundle":            "render testdata/bundle",
		"render-bundle-image":      "render testdata/bundle --image-ref-template registry.example.com/{{.Package}}-bundle:v{{.Version}} --migrate -o yaml",
		"render-bundle-level":      "render testdata/bundle --migrate -o yaml",
		"render-bad-template":      "render testdata/bundle --alpha-image-ref-template {{.Package",
		"render-bad-field":         "render testdata/bundle --image-ref-template {{.Channel}}",
		"list-packages":            "alpha list packages testdata/catalog",
		"list-channels":            "alpha list channels testdata/catalog",
		"list-channels-of":         "alpha list channels testdata/catalog pot",
		"list-bundles":             "alpha list bundles testdata/catalog",
		"list-bundles-of":          "alpha list bundles testdata/catalog kettle",
		"list-unknown":             "alpha list bundles testdata/catalog pan",
		"list-bundle":              "alpha list packages testdata/bundle",
		"list-broken":              "alpha list packages testdata/broken",
		"list-three":               "alpha list packages one two",
		"graph":                    "alpha render-graph testdata/catalog",
		"graph-package":            "alpha render-graph testdata/catalog -p pot",
		"graph-v0":                 "alpha render-graph testdata/catalog -p kettle --draw-v0-semantics",
		"graph-floor":              "alpha render-graph testdata/catalog --minimum-edge kettle.v0.2.0",
		"graph-no-floor":           "alpha render-graph testdata/catalog --minimum-edge kettle.v9.0.0",
		"graph-broken":             "alpha render-graph testdata/broken",
		"graph-bundle":             "alpha render-graph testdata/bundle",
		"migrate-bundle":           "migrate testdata/bundle testdata/out",
		"migrate-full":             "migrate testdata/catalog testdata/broken",
	} {
		t.Run(name, func(t *testing.T) { check(t, "folders/"+name, run(t, line)) })
	}
}

// Nothing is written if a catalog cannot be read or migrated completely.
func TestRenderWritesAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", `{"schema":"olm.package","name":"a","defaultChannel":"x"}`)
	write(t, dir, "b.json", `{"schema":"olm.bundle","package":"a","name":"a.v1","image":"r/a:1","properties":[{"type":"olm.bundle.object","value":{"data":"e30="}},{"type":"olm.bundle.object","value":7}]}`)
	if r := run(t, "render --migrate "+dir); r.code == 0 || r.out != "" {
		t.Errorf("not migrated:\n%s", r)
	}

	write(t, dir, "z.json", `{"schema":`)
	if r := run(t, "render "+dir); r.code == 0 || r.out != "" {
		t.Errorf("not read:\n%s", r)
	}
}

// A bundle that no version of OLM can install is not rendered.
func TestRenderRefusesBundles(t *testing.T) {
	const csvFile, dependencies = "manifests/kettle.clusterserviceversion.yaml", "metadata/dependencies.yaml"
	csv, err := os.ReadFile(filepath.Join("testdata", "bundle", csvFile))
	if err != nil {
		t.Fatal(err)
	}

	head, _, _ := strings.Cut(string(csv), "spec:")
	for name, test := range map[string]struct{ file, text, want string }{
		"a dependency that is not understood": {
			dependencies, "dependencies: [{type: olm.gvk, value: kettle}]", `metadata/dependencies.yaml: parse dependency[0] of type "olm.gvk": json: cannot unmarshal string`,
		},
		"a CSV without spec": {csvFile, head, `ClusterServiceVersion "kettle.v0.1.0": spec is missing or not an object`},
		"a numeric version": {
			csvFile, strings.Replace(string(csv), "version: 0.1.0", "version: 1.10", 1), `ClusterServiceVersion "kettle.v0.1.0": spec.version: a version must be a string, not 1.1: put it in quotes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("testdata/bundle")); err != nil {
				t.Fatal(err)
			}

			write(t, dir, test.file, test.text)
			if r := run(t, "render "+dir); r.code == 0 || r.out != "" || !strings.Contains(r.errors, test.want) {
				t.Errorf("got:\n%s\nwant no output, and the error %q", r, test.want)
			}
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A blob without a package is omitted from a catalog, with a warning.
func TestRenderNamesWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", `{"schema":"olm.channel","name":"stray","entries":[]}`)
	r := run(t, "render "+dir)
	if r.code != 0 || r.out != "" || !strings.Contains(r.errors, `Warning: olm.channel, name "stray"`) && !strings.Contains(r.errors, "stray") {
		t.Error(r)
	}
}

// A migration writes a file for each package with the content of the original catalog.
func TestMigrate(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		dir := filepath.Join(t.TempDir(), "out")
		if r := run(t, "migrate testdata/catalog "+dir+" -o "+format); r.code != 0 || r.out != "" || r.errors != "" {
			t.Fatal(r)
		}

		var files []string
		err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				name, err = filepath.Rel(dir, name)
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}

		want := []string{"catalog." + format, "kettle/catalog." + format, "pot/catalog." + format}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(mustRun(t, "render", "testdata/catalog"), mustRun(t, "render", dir)); diff != "" {
			t.Errorf("rendered (-want +got):\n%s", diff)
		}
		if r := run(t, "migrate testdata/catalog "+dir); r.code != 1 || r.errors != "Error: output dir \""+dir+"\" must be empty\n" {
			t.Error(r)
		}
	}
}

// A migration that fails leaves no files.
func TestMigrateLeavesNothing(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a.json", `{"schema":"olm.package","name":"a","defaultChannel":"x"}
{"schema":"olm.bundle","package":"b","name":"b.v1","image":"r/b:1","properties":[{"type":"olm.bundle.object","value":7}]}`)
	r := run(t, "migrate --migrate-level all "+from+" "+to)
	if r.code != 1 || !strings.Contains(r.errors, "migrate: ") {
		t.Error(r)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Real catalogs are valid. Rendering them is stable and lossless.
func TestRealCatalog(t *testing.T) {
	folder := checkout.SharedData(t, "fbc")
	if r := run(t, "validate "+folder); r.String() != "$ opm validate "+folder+"\n" {
		t.Error(r)
	}

	first := mustRun(t, "render", folder)
	if second := mustRun(t, "render", folder); second != first {
		t.Error("rendering again has another result")
	}

	again := t.TempDir()
	write(t, again, "catalog.json", first)
	if second := mustRun(t, "render", again); second != first {
		t.Error("rendering the rendered catalog has another result")
	}

	write(t, again, "catalog.json", mustRun(t, "render", folder, "-o", "yaml"))
	if second := mustRun(t, "render", again); second != first {
		t.Error("rendering its YAML has another result")
	}

	sources, err := filepath.Glob(filepath.Join(folder, "*", "*.yaml"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("got no files, error %v", err)
	}

	// The rendered blobs are those of the files, package by package.
	var files []any
	for _, name := range sources {
		files = append(files, decodeDocuments(t, mustRun(t, "render", filepath.Dir(name)))...)
	}

	if diff := cmp.Diff(files, decodeDocuments(t, first)); diff != "" {
		t.Errorf("rendered (-files +all):\n%s", diff)
	}
}

// decodeDocuments decodes a stream of JSON values.
func decodeDocuments(t *testing.T, text string) []any {
	t.Helper()
	var found []any
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}

		found = append(found, value)
	}
}

// Every directory of real bundles is rendered to an olm.bundle blob of its version.
func TestRealBundles(t *testing.T) {
	folders := checkout.RealBundles(t)
	packages := map[string]bool{}
	for _, folder := range folders {
		t.Run(filepath.Base(filepath.Dir(folder))+"/"+filepath.Base(folder), func(t *testing.T) {
			blobs := decodeDocuments(t, mustRun(t, "render", folder, "--image-ref-template", "registry.example.com/{{.Package}}:v{{.Version}}"))
			if len(blobs) != 1 {
				t.Fatalf("%d blobs", len(blobs))
			}

			blob, _ := blobs[0].(map[string]any)
			if blob["schema"] != "olm.bundle" || blob["name"] == "" || !strings.HasPrefix(blob["image"].(string), "registry.example.com/") {
				t.Errorf("blob %v %v %v", blob["schema"], blob["name"], blob["image"])
			}
			if packages[filepath.Dir(folder)] {
				return // one migration of each package is enough
			}

			packages[filepath.Dir(folder)] = true
			migrated := mustRun(t, "render", folder, "--image-ref-template", "registry.example.com/x:v1", "--migrate")
			if strings.Contains(migrated, "olm.bundle.object") || strings.Count(migrated, `"olm.csv.metadata"`) != 1 {
				t.Errorf("got manifests or no metadata after the migration")
			}
		})
	}
}
