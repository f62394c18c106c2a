package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const annotationsYAML = `
annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: stable, 4.10
  operators.operatorframework.io.bundle.channel.default.v1: 4.10
`

const csvYAML = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.2.3
  annotations:
    olm.skipRange: ">=1.0.0 <1.2.3"
spec:
  displayName: Foo
  version: 1.2.3
  replaces: foo.v1.2.2
  skips: [foo.v1.2.1]
  install:
    strategy: deployment
  installModes:
  - {type: SingleNamespace, supported: true}
  - {type: AllNamespaces, supported: true}
  - {type: OwnNamespace, supported: false}
`

const crdYAML = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  versions: [{name: v1}, {name: v1beta1}]
`

// bundleFS is a valid bundle with changed files. An empty text removes a file.
func bundleFS(changes map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{
		"metadata/annotations.yaml": {Data: []byte(annotationsYAML)},
		"manifests/csv.yaml":        {Data: []byte(csvYAML)},
		"manifests/crd.yaml":        {Data: []byte(crdYAML)},
	}
	for name, text := range changes {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
		if text == "" {
			delete(fsys, name)
		}
	}

	return fsys
}

func mustLoad(t *testing.T, changes map[string]string) *Bundle {
	t.Helper()
	b, err := Load(bundleFS(changes))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLoad(t *testing.T) {
	b := mustLoad(t, map[string]string{
		"manifests/.hidden":  "not: [yaml",
		"manifests/two.yaml": "---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
		"manifests/list.yaml": "apiVersion: v1\nkind: List\nitems:\n" +
			"- {apiVersion: v1, kind: Service, metadata: {name: c}}\n- {apiVersion: v1, kind: Service, metadata: {name: d}}\n",
		"manifests/many.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e"},"data":{"face":"\ud83d\ude00"}}` +
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f"}}`,
		"manifests/flow.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: g}}",
	})
	if b.Package != "foo" || b.Name() != "foo.v1.2.3" || b.Version.String() != "1.2.3" || b.DefaultChannel != "4.10" {
		t.Errorf("got package %q, name %q, version %q, default channel %q; want foo, foo.v1.2.3, 1.2.3, 4.10", b.Package, b.Name(), b.Version, b.DefaultChannel)
	}
	if diff := cmp.Diff([]string{"stable", "4.10"}, b.Channels); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}

	var names []string
	for _, object := range b.Objects {
		names = append(names, object.GetKind()+"/"+object.GetName())
	}

	want := []string{"ConfigMap/g", "Service/c", "Service/d", "ConfigMap/e", "ConfigMap/f", "Secret/a", "Secret/b"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if len(b.CRDs) != 1 {
		t.Errorf("got %d CRDs, want 1", len(b.CRDs))
	}

	modes := []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces, v1alpha1.InstallModeTypeSingleNamespace}
	if diff := cmp.Diff(modes, b.InstallModes()); diff != "" {
		t.Errorf("install modes (-want +got):\n%s", diff)
	}
}

func TestLoadOtherFolders(t *testing.T) {
	annotations := strings.NewReplacer("manifests/", "/deploy/objects/", "v1: metadata/", "v1: meta/").Replace(annotationsYAML)
	b, err := Load(fstest.MapFS{
		"metadata/annotations.yaml": {Data: []byte(annotations)},
		"meta/properties.yaml":      {Data: []byte("properties: [{type: x, value: 1}]")},
		"deploy/objects/csv.yaml":   {Data: []byte(csvYAML)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Properties[len(b.Properties)-1].Type; got != "x" {
		t.Errorf("the last property is %q, want x", got)
	}
}

// TestLoadOmits checks that content which the loader omits is reported, so that no
// incomplete bundle is installed.
func TestLoadOmits(t *testing.T) {
	object := func(name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\n", name)
	}
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"two CSVs", map[string]string{"manifests/csv2.yaml": csvYAML}, "manifests/csv2.yaml: a second ClusterServiceVersion beside the one in manifests/csv.yaml"},
		{"wrong type", map[string]string{"manifests/csv.yaml": strings.Replace(csvYAML, "displayName: Foo", "displayName: [Foo]", 1)}, "ClusterServiceVersion \"foo.v1.2.3\": spec.displayName: json: cannot unmarshal array"},
		{"folder", map[string]string{"manifests/more/a.yaml": object("a")}, "manifests/more: is a folder"},
		{"no YAML", map[string]string{"manifests/README.md": "Foo: [bar"}, "manifests/README.md: "},
		{"no object", map[string]string{"manifests/a.yaml": "a: 1"}, "manifests/a.yaml: is not a Kubernetes object, its kind is missing"},
		{"no object in the second document", map[string]string{"manifests/a.yaml": object("a") + "---\na: 1"}, "manifests/a.yaml: document 2: is not a Kubernetes object: kind or apiVersion is missing"},
		{"a list", map[string]string{"manifests/a.yaml": object("a") + "---\n[1, 2]"}, "manifests/a.yaml: document 2: is not a Kubernetes object: "},
		{"no name", map[string]string{"manifests/a.yaml": object("''")}, "manifests/a.yaml: document 1: Secret has no metadata.name"},
		{"bad item", map[string]string{"manifests/a.yaml": "apiVersion: v1\nkind: List\nitems: [1]"}, "manifests/a.yaml: document 1: item 1: is not a Kubernetes object"},
		{"deep", map[string]string{"manifests/a.yaml": object("a") + "data: " + strings.Repeat("[", 300) + strings.Repeat("]", 300)}, "manifests/a.yaml: document 1: is nested deeper than 200 levels"},
		{"aliases", map[string]string{"manifests/a.yaml": object("a") + aliasBomb()}, "manifests/a.yaml: document 1: has more than 8388608 bytes when its aliases are replaced"},
		{"alias in itself", map[string]string{"manifests/a.yaml": object("a") + "data: &a [*a]"}, "manifests/a.yaml: document 1: "},
		{"bad properties", map[string]string{"metadata/properties.yaml": "properties: {}"}, "metadata/properties.yaml: json: cannot unmarshal"},
		{"bad dependencies", map[string]string{"metadata/dependencies.yaml": "a: ["}, "metadata/dependencies.yaml: document 1: "},
		{"blobs on end", map[string]string{"manifests/a.yaml": "{kind: Secret, apiVersion: v1, metadata: {name: a}}\n{kind: Secret, apiVersion: v1, metadata: {name: b}}"}, "manifests/a.yaml: document 1: yaml: "},
		{"carriage returns", map[string]string{"manifests/a.yaml": strings.ReplaceAll(object("a")+"---\n"+object("b"), "\n", "\r")}, "manifests/a.yaml: document 1: line 4: a further document follows"},
		{"two documents", map[string]string{"metadata/dependencies.yaml": "a: 1\n---\nb: 2"}, "metadata/dependencies.yaml: holds 2 documents"},
		{"many objects", map[string]string{"manifests/a.yaml": strings.Repeat("---\n"+object("a"), maxObjects)}, "manifests/csv.yaml: the bundle holds more than 2000 objects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "many objects" {
				c.changes["manifests/z.yaml"] = object("z")
				c.want = "manifests/crd.yaml: the bundle holds more than 2000 objects"
			}
			b, err := Load(bundleFS(c.changes))
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Omitted) != 1 || !strings.HasPrefix(b.Omitted[0], c.want) {
				t.Errorf("got omitted content %q, want %q", b.Omitted, c.want)
			}
		})
	}
}

// TestLoadLosesNothingSilently checks that with any text between two objects of a manifest either both are loaded or the rest
// is reported as omitted. YAML 1.1 has more line breaks than JSON and than text files.
func TestLoadLosesNothingSilently(t *testing.T) {
	objects := map[string]string{
		"JSON":       `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"NAME"}}`,
		"flow YAML":  `{apiVersion: v1, kind: Secret, metadata: {name: NAME}}`,
		"block YAML": "apiVersion: v1<BREAK>kind: Secret<BREAK>metadata: {name: NAME}",
	}
	breaks := map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n", "NEL": "\u0085", "LS": "\u2028", "PS": "\u2029"}
	separators := map[string]string{
		"a break": "<BREAK>", "a comment": "<BREAK># comment<BREAK>", "a separator": "<BREAK>---<BREAK>", "a separator after a line feed": "\n---<BREAK>",
		"a separator before a line feed": "<BREAK>---\n", "an end": "<BREAK>...<BREAK>", "nothing": "",
	}

	for breakName, lineBreak := range breaks {
		for separatorName, separator := range separators {
			for firstName, first := range objects {
				for secondName, second := range objects {
					if firstName == "block YAML" && (separator == "" || secondName == "block YAML" && !strings.ContainsAny(separator, "-.")) {
						continue // This is one object, with a longer name or duplicate keys.
					}

					text := strings.Replace(first, "NAME", "first", 1) + separator + strings.Replace(second, "NAME", "second", 1) + "<BREAK>"
					text = strings.ReplaceAll(text, "<BREAK>", lineBreak)
					b := mustLoad(t, map[string]string{"manifests/a.yaml": text})
					if len(b.Objects) != 2 && len(b.Omitted) == 0 {
						t.Errorf("%s, %s of %s, %s: got %d objects of %q without a report, want 2 or a report", firstName, separatorName, breakName, secondName, len(b.Objects), text)
					}
				}
			}
		}
	}
}

// TestLoadKeepsLineBreaksOfStrings checks that strings of manifests keep every character that YAML or JSON does not fold.
func TestLoadKeepsLineBreaksOfStrings(t *testing.T) {
	const value = "a\rb\u0085c\u2028d\u2029e\nf"
	quoted := strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(value)
	for name, text := range map[string]string{
		"JSON":                  `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"` + quoted + `"}}`,
		"JSON after JSON":       `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"first"}}` + "\n" + `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"` + quoted + `"}}`,
		"escapes in YAML":       `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: "a\rb\Nc\Ld\Pe\nf"}}`,
		"escapes in block YAML": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: \"a\\rb\\Nc\\Ld\\Pe\\nf\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := mustLoad(t, map[string]string{"manifests/a.yaml": text})
			if len(b.Omitted) > 0 || len(b.Objects) == 0 {
				t.Fatalf("got %d objects and omitted content %q, want 2 objects and nothing omitted", len(b.Objects), b.Omitted)
			}
			got, _, err := unstructured.NestedString(b.Objects[len(b.Objects)-1].Object, "stringData", "a")
			if err != nil || got != value {
				t.Errorf("got the string %q, want %q (error %v)", got, value, err)
			}
		})
	}
}

// TestLoadAcceptsSparseMetadata checks that the loader accepts all metadata that existing
// tools accept.
func TestLoadAcceptsSparseMetadata(t *testing.T) {
	annotations := "annotations: {" + KeyPackage + ": foo}"
	csv := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(csvYAML) }
	for name, changes := range map[string]map[string]string{
		"no media type":                  {"metadata/annotations.yaml": annotations},
		"API group of the bundle itself": {"manifests/csv.yaml": csv("operators.coreos.com/v1alpha1", "binding.operators.coreos.com/v1alpha1")},
		"API version without a group":    {"manifests/csv.yaml": csv("operators.coreos.com/v1alpha1", "v1alpha1")},
		"no install strategy":            {"manifests/csv.yaml": csv("  install:\n    strategy: deployment\n", "")},
		"no version":                     {"manifests/csv.yaml": csv("  version: 1.2.3\n", "")},
		"property without type":          {"metadata/properties.yaml": "properties: [{value: 1}, {type: a}]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := mustLoad(t, changes)
			if b.Package != "foo" || b.Name() != "foo.v1.2.3" || len(b.Omitted)+len(b.Warnings) > 0 {
				t.Errorf("got package %q, name %q, omitted content %q, warnings %q", b.Package, b.Name(), b.Omitted, b.Warnings)
			}
			if got, want := b.CSV.APIVersion, "operators.coreos.com/v1alpha1"; got != want {
				t.Errorf("got apiVersion %q, want %q", got, want)
			}
		})
	}
}

func TestLoadImageTakesMediaTypeOfLabels(t *testing.T) {
	sparse := "annotations: {" + KeyPackage + ": foo}"
	for _, c := range []struct{ name, annotations, label, want string }{
		{"neither", sparse, "", ""},
		{"label", sparse, "registry+v1", ""},
		{"annotation before label", annotationsYAML, "helm", ""},
		{"another label", sparse, "helm", `label of the image: operators.operatorframework.io.bundle.mediatype.v1: the bundle format "helm" is not supported, only "registry+v1"`},
		{"another annotation", strings.Replace(annotationsYAML, "registry+v1", "plain", 1), "registry+v1",
			`metadata/annotations.yaml: operators.operatorframework.io.bundle.mediatype.v1: the bundle format "plain" is not supported, only "registry+v1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := LoadImage(bundleFS(map[string]string{"metadata/annotations.yaml": c.annotations}), map[string]string{KeyMediaType: c.label})
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// TestLoadKeepsToTheBundle checks that the default folders are read if the bundle does not
// have the folders that its annotations name.
func TestLoadKeepsToTheBundle(t *testing.T) {
	for _, folder := range []string{"../../etc", "other", "."} {
		b := mustLoad(t, map[string]string{"metadata/annotations.yaml": strings.Replace(annotationsYAML, "manifests/", folder, 1)})
		if got := len(b.Manifests); got != 2 {
			t.Errorf("%s: got %d manifests, want 2", folder, got)
		}
	}
}

func TestCheckDepth(t *testing.T) {
	for text, deep := range map[string]bool{
		strings.Repeat("[", maxNestingDepth) + strings.Repeat("]", maxNestingDepth):     false,
		strings.Repeat("[", maxNestingDepth+1) + strings.Repeat("]", maxNestingDepth+1): true,
		`{"a":` + strings.Repeat(`{"a":`, maxNestingDepth) + "1":                        true,
		"[" + strings.Repeat("[],{},", maxNestingDepth) + "1]":                          false,
		`["` + strings.Repeat(`[\"{`, maxNestingDepth+1) + `"]`:                         false,
	} {
		if err := checkNestingDepth([]byte(text)); (err != nil) != deep {
			t.Errorf("%.40s: got error %v, want one: %t", text, err, deep)
		}
	}
}

// TestCheckAliasExpansion checks that only text with both an anchor and an alias is parsed.
// The parser reports invalid YAML.
func TestCheckAliasExpansion(t *testing.T) {
	for text, looked := range map[string]bool{"a: [": false, "a: &a [": false, "a: *a [": false, "a: [*a, &a": true} {
		if err := checkAliasExpansion([]byte(text)); (err != nil) != looked {
			t.Errorf("%q: got error %v", text, err)
		}
	}
}

// aliasBomb returns 20 lines of YAML that expand to 10^20 strings.
func aliasBomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text.String()
}

func TestLoadRefusesCounts(t *testing.T) {
	many := bundleFS(nil)
	for i := range maxFiles {
		many[fmt.Sprintf("manifests/%d.yaml", i)] = &fstest.MapFile{}
	}

	if _, err := Load(many); err == nil || !strings.Contains(err.Error(), "manifests: holds 1002 files, more than the 1000") {
		t.Errorf("many files: got error %v", err)
	}

	large := bundleFS(nil)
	for i := range maxTotalBytes/maxFileBytes + 1 {
		large[fmt.Sprintf("manifests/a%d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("#######\n", maxFileBytes/8))}
	}

	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "the bundle is larger than the 67108864 bytes") {
		t.Errorf("large bundle: got error %v", err)
	}
}

func TestLoadRefusesSymbolicLinks(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
	}
	file := bundleFS(nil)
	file["manifests/link.yaml"] = link("crd.yaml")
	folder := bundleFS(map[string]string{"metadata/annotations.yaml": "", "elsewhere/annotations.yaml": annotationsYAML})
	folder["metadata"] = link("elsewhere")
	above := bundleFS(map[string]string{
		"metadata/annotations.yaml": strings.Replace(annotationsYAML, "manifests/", "deploy/objects/", 1), "elsewhere/objects/a.yaml": crdYAML,
	})
	above["deploy"] = link("elsewhere")
	for want, fsys := range map[string]fs.FS{
		"manifests/link.yaml: must be a regular file": file,
		"metadata: must be a folder":                  folder,
		"deploy/objects: ":                            above,
	} {
		b, err := Load(fsys)
		if err == nil {
			err = errors.New(strings.Join(b.Omitted, "\n"))
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that contains %q", err, want)
		}
	}
}

func TestLoadTakesLooseCSV(t *testing.T) {
	loose := strings.NewReplacer("version: 1.2.3", "version: '1.2'\n  minKubeVersion: 1.16\n  release: 3").Replace(csvYAML)
	b := mustLoad(t, map[string]string{"manifests/csv.yaml": loose})
	if got := b.Version.String(); got != "1.2.0" {
		t.Errorf("got version %s, want 1.2.0", got)
	}
	if got := b.CSV.Spec; got.MinKubeVersion != "1.16" || got.Release != "3" || got.Version != "1.2" {
		t.Errorf("minKubeVersion %q, release %q, version %q", got.MinKubeVersion, got.Release, got.Version)
	}
}

func fuzzedFS(annotations, csv, object, properties, dependencies string) fstest.MapFS {
	return fstest.MapFS{
		"metadata/annotations.yaml":  {Data: []byte(annotations)},
		"metadata/properties.yaml":   {Data: []byte(properties)},
		"metadata/dependencies.yaml": {Data: []byte(dependencies)},
		"manifests/csv.yaml":         {Data: []byte(csv)},
		"manifests/object.yaml":      {Data: []byte(object)},
	}
}

// addBundles seeds a fuzz target of the five files of fuzzedFS.
func addBundles(f *testing.F) {
	f.Helper()
	f.Add(annotationsYAML, csvYAML, crdYAML, "properties: [{type: a, value: {b: c}}]", "dependencies: [{type: olm.package, value: {packageName: p, version: '>1'}}]")
	f.Add("annotations: {a: &a b, c: *a}", `{"kind":"ClusterServiceVersion"}`, "a: &a [*a]", "---", "{}")
	f.Add(annotationsYAML, csvYAML, "{apiVersion: v1, kind: List, items: [{}]}", "properties: null", "dependencies: [null]")
	f.Add(annotationsYAML, csvYAML+fullSpec, crdYAML+"---\na: 1", "properties: [{type: olm.package, value: 1}]", "dependencies: [{type: olm.gvk, value: {}}]")
	f.Add("annotations: {b: c}", "kind: ClusterServiceVersion\nspec: {version: [], release: {}}", "kind: ClusterServiceVersion", "a: b", "{")
	f.Add("annotations: {b: c}", "kind: ClusterServiceVersion\nspec: {Release: {}}", "kind: Other", "a: b", " ")
}

// FuzzLoad checks that every bundle that can be loaded can be added to a catalog and
// migrated, unless the catalog would lack a CRD that the CSV owns.
func FuzzLoad(f *testing.F) {
	addBundles(f)
	f.Fuzz(func(t *testing.T, annotations, csv, object, properties, dependencies string) {
		b, err := Load(fuzzedFS(annotations, csv, object, properties, dependencies))
		if err != nil || b.checkProvidedAPIs() != nil {
			return
		}

		blob, err := b.FBC("registry.example/foo:v1", WithObjects)
		if err != nil {
			t.Fatalf("got error %v from adding a loaded bundle to a catalog", err)
		}

		raw, err := CSV(&blob)
		if err != nil || raw == nil {
			t.Fatalf("got no CSV of the blob: %v", err)
		}
		// Ignored fields do not have their type in the blob either. A field whose name differs from a known one in
		// its case is unknown in a bundle, but known in a catalog.
		var exact, anyCase v1alpha1.ClusterServiceVersion
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &exact) == nil && json.Unmarshal(raw, &anyCase) != nil {
			return
		}
		if err := Migrate(&blob, MigrateAll); err != nil && len(b.Warnings) == 0 {
			t.Errorf("got error %v from the migration of the blob", err)
		}
	})
}
