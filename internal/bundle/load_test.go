package bundle

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

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

// bundleFS is a good bundle with files changed: an empty text removes one.
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

func load(t *testing.T, changes map[string]string) *Bundle {
	t.Helper()
	b, err := Load(bundleFS(changes))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLoad(t *testing.T) {
	b := load(t, map[string]string{
		"manifests/.hidden":  "not: [yaml",
		"manifests/two.yaml": "---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
		"manifests/list.yaml": "apiVersion: v1\nkind: List\nitems:\n" +
			"- {apiVersion: v1, kind: Service, metadata: {name: c}}\n- {apiVersion: v1, kind: Service, metadata: {name: d}}\n",
		"manifests/many.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e"},"data":{"face":"\ud83d\ude00"}}` +
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f"}}`,
		"manifests/flow.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: g}}",
	})
	if b.Package != "foo" || b.Name() != "foo.v1.2.3" || b.Version.String() != "1.2.3" || b.DefaultChannel != "4.10" {
		t.Errorf("package %q, name %q, version %q, default channel %q", b.Package, b.Name(), b.Version, b.DefaultChannel)
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
		t.Errorf("%d CRDs, want 1", len(b.CRDs))
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

func TestLoadRefuses(t *testing.T) {
	set := func(from, to string) string { return strings.Replace(annotationsYAML, from, to, 1) }
	csv := func(from, to string) string { return strings.Replace(csvYAML, from, to, 1) }
	object := func(name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\n", name)
	}
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"no annotations", map[string]string{"metadata/annotations.yaml": ""}, "metadata/annotations.yaml: file does not exist: this is no registry+v1 bundle"},
		{"bad annotations", map[string]string{"metadata/annotations.yaml": "a: ["}, "metadata/annotations.yaml: yaml: "},
		{"no media type", map[string]string{"metadata/annotations.yaml": "annotations: {}"}, "mediatype.v1 is not set: it must be \"registry+v1\""},
		{"media type", map[string]string{"metadata/annotations.yaml": set("registry+v1", "helm")}, `the bundle format "helm" is not supported, only "registry+v1"`},
		{"no package", map[string]string{"metadata/annotations.yaml": set("package.v1: foo", "package.v1: ''")}, "package.v1 is not set: it must name the package"},
		{"folder outside", map[string]string{"metadata/annotations.yaml": set("manifests/", "../../etc")}, `"../../etc" is not a folder of the bundle`},
		{"no manifests", map[string]string{"metadata/annotations.yaml": set("manifests/", "other")}, "other: file does not exist"},
		{"no CSV", map[string]string{"manifests/csv.yaml": ""}, "manifests: holds no ClusterServiceVersion"},
		{"two CSVs", map[string]string{"manifests/csv2.yaml": csvYAML}, "manifests/csv2.yaml: a second ClusterServiceVersion beside the one in manifests/csv.yaml"},
		{"CSV of another group", map[string]string{"manifests/csv.yaml": csv("operators.coreos.com/v1alpha1", "example.com/v1")}, `manifests/csv.yaml: ClusterServiceVersion "foo.v1.2.3" has apiVersion "example.com/v1"`},
		{"no version", map[string]string{"manifests/csv.yaml": csv("version: 1.2.3", "")}, "spec.version is not set"},
		{"bad version", map[string]string{"manifests/csv.yaml": csv("version: 1.2.3", "version: one")}, `spec.version "one" is not a semantic version`},
		{"wrong type", map[string]string{"manifests/csv.yaml": csv("displayName: Foo", "displayName: [Foo]")}, "manifests/csv.yaml: ClusterServiceVersion \"foo.v1.2.3\": json: cannot unmarshal array"},
		{"folder", map[string]string{"manifests/more/a.yaml": object("a")}, "manifests/more: is a folder"},
		{"no YAML", map[string]string{"manifests/README.md": "Foo: [bar"}, "manifests/README.md: "},
		{"no object", map[string]string{"manifests/a.yaml": "a: 1"}, "manifests/a.yaml: document 1: is not a Kubernetes object: kind or apiVersion is missing"},
		{"a list", map[string]string{"manifests/a.yaml": object("a") + "---\n[1, 2]"}, "manifests/a.yaml: document 2: is not a Kubernetes object: "},
		{"no name", map[string]string{"manifests/a.yaml": object("''")}, "manifests/a.yaml: document 1: Secret has no metadata.name"},
		{"bad item", map[string]string{"manifests/a.yaml": "apiVersion: v1\nkind: List\nitems: [1]"}, "manifests/a.yaml: document 1: item 1: is not a Kubernetes object"},
		{"large file", map[string]string{"manifests/a.yaml": strings.Repeat("# large\n", maxFileBytes/8+1)}, "manifests/a.yaml: is larger than the 8388608 bytes"},
		{"deep", map[string]string{"manifests/a.yaml": object("a") + "data: " + strings.Repeat("[", 300) + strings.Repeat("]", 300)}, "manifests/a.yaml: document 1: is nested deeper than 200 levels"},
		{"aliases", map[string]string{"manifests/a.yaml": object("a") + bomb()}, "manifests/a.yaml: document 1: has more than 8388608 bytes when its aliases are replaced"},
		{"alias in itself", map[string]string{"manifests/a.yaml": object("a") + "data: &a [*a]"}, "manifests/a.yaml: document 1: "},
		{"bad properties", map[string]string{"metadata/properties.yaml": "properties: {}"}, "metadata/properties.yaml: json: cannot unmarshal"},
		{"property without type", map[string]string{"metadata/properties.yaml": "properties: [{value: 1}]"}, "metadata/properties.yaml: property 1: type must be set"},
		{"property without value", map[string]string{"metadata/properties.yaml": "properties: [{type: a}]"}, `metadata/properties.yaml: property 1: type "a": value must be set`},
		{"bad dependency", map[string]string{"metadata/dependencies.yaml": "dependencies: [{type: olm.gvk, value: a}]"}, `metadata/dependencies.yaml: dependency 1: type "olm.gvk": json: `},
		{"two documents", map[string]string{"metadata/dependencies.yaml": "a: 1\n---\nb: 2"}, "metadata/dependencies.yaml: holds 2 documents"},
		{"required CRD", map[string]string{"manifests/csv.yaml": csvYAML + "  customresourcedefinitions: {required: [{name: foos, kind: Foo, version: v1}]}"}, `ClusterServiceVersion "foo.v1.2.3": required CRD: couldn't parse plural.group from crd name: foos`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(bundleFS(c.changes))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestCheckDepth(t *testing.T) {
	for text, deep := range map[string]bool{
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth):     false,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1): true,
		`{"a":` + strings.Repeat(`{"a":`, maxDepth) + "1":                 true,
		"[" + strings.Repeat("[],{},", maxDepth) + "1]":                   false,
		`["` + strings.Repeat(`[\"{`, maxDepth+1) + `"]`:                  false,
	} {
		if err := checkDepth([]byte(text)); (err != nil) != deep {
			t.Errorf("%.40s: error %v", text, err)
		}
	}
}

// Only what has both an anchor and an alias is looked at: what is no YAML of its own is
// told by the parser.
func TestCheckAliasesLooksWhereItMust(t *testing.T) {
	for text, looked := range map[string]bool{"a: [": false, "a: &a [": false, "a: *a [": false, "a: [*a, &a": true} {
		if err := checkAliases([]byte(text)); (err != nil) != looked {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// bomb is 20 lines of YAML that stand for 10^20 strings.
func bomb() string {
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
		t.Errorf("many files: error %v", err)
	}
	objects := strings.Repeat("---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", maxObjects)
	if _, err := Load(bundleFS(map[string]string{"manifests/a.yaml": objects})); err == nil || !strings.Contains(err.Error(), "more than 2000 objects") {
		t.Errorf("many objects: error %v", err)
	}
	large := bundleFS(nil)
	for i := range maxTotalBytes/maxFileBytes + 1 {
		large[fmt.Sprintf("manifests/a%d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("#######\n", maxFileBytes/8))}
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "the bundle is larger than the 67108864 bytes") {
		t.Errorf("large bundle: error %v", err)
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
		for name, read := range map[string]func(fs.FS) (*Bundle, error){"Load": Load, "Parse": Parse} {
			_, err := read(fsys)
			if name == "Parse" && strings.Contains(want, "regular") { // passes over what it cannot read
				if err != nil {
					t.Errorf("Parse: %v", err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one that contains %q", name, err, want)
			}
		}
	}
}

func TestLoadTakesLooseCSV(t *testing.T) {
	loose := strings.NewReplacer("operators.coreos.com/v1alpha1", "v1alpha1", "version: 1.2.3", "version: 1.2\n  minKubeVersion: 1.16\n  release: 3").Replace(csvYAML)
	b := load(t, map[string]string{"manifests/csv.yaml": loose})
	if got := b.Version.String(); got != "1.2.0" {
		t.Errorf("version %s, want 1.2.0", got)
	}
	if got := b.CSV.Spec; got.MinKubeVersion != "1.16" || got.Release != "3" || got.Version != "1.2" {
		t.Errorf("minKubeVersion %q, release %q, version %q", got.MinKubeVersion, got.Release, got.Version)
	}
	if got := b.CSV.APIVersion; got != "operators.coreos.com/v1alpha1" {
		t.Errorf("apiVersion %q", got)
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
}

// FuzzParse: what Load takes, Parse takes too, unless one of its own rules is broken; and
// what either takes can be put into a catalog and migrated.
func FuzzParse(f *testing.F) {
	addBundles(f)
	f.Fuzz(func(t *testing.T, annotations, csv, object, properties, dependencies string) {
		b, err := Parse(fuzzedFS(annotations, csv, object, properties, dependencies))
		if err != nil {
			return
		}
		blob, err := b.FBC("registry.example/foo:v1", WithObjects)
		if err != nil {
			t.Fatalf("a bundle that parses has no blob: %v", err)
		}
		raw, err := CSV(&blob)
		if err != nil || raw == nil {
			t.Fatalf("the blob has no CSV: %v", err)
		}
		// Fields that were passed over are not of their type in the blob either.
		if err := Migrate(&blob, MigrateAll); err != nil && len(b.Warnings) == 0 {
			t.Errorf("the blob cannot be migrated: %v", err)
		}
	})
}

func FuzzLoad(f *testing.F) {
	addBundles(f)
	f.Fuzz(func(t *testing.T, annotations, csv, object, properties, dependencies string) {
		b, err := Load(fuzzedFS(annotations, csv, object, properties, dependencies))
		if err != nil {
			return
		}
		if b.Package == "" || b.Name() == "" || len(b.Properties) == 0 {
			t.Errorf("package %q, name %q, %d properties", b.Package, b.Name(), len(b.Properties))
		}
		if _, err := b.FBC("registry.example/foo:v1", WithMetadata); err != nil {
			t.Errorf("a bundle that loads has no blob: %v", err)
		}
	})
}
