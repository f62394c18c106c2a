package bundle

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const ownedFoo = `
  customresourcedefinitions:
    owned: [{name: foos.example.com, version: v1beta1, kind: Foo}]
`

func TestLoadWarns(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	for _, c := range []struct {
		name     string
		changes  map[string]string
		objects  []string
		warnings []string
	}{
		{"a valid bundle", map[string]string{"manifests/csv.yaml": csvYAML + ownedFoo}, nil, nil},
		{"hidden files and folders", map[string]string{"manifests/.a": "{", "manifests/more/a.yaml": "{"}, nil, nil},
		{"further documents", map[string]string{"manifests/a.yaml": secret + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}"}, []string{"Secret", "ConfigMap"},
			[]string{"manifests/a.yaml: holds more than one document: catalogs ignore all but the first"}},
		{"a broken further document", map[string]string{"manifests/a.yaml": secret + "---\na: ["}, []string{"Secret"},
			[]string{"manifests/a.yaml: holds more than one document: catalogs ignore all but the first"}},
		{"a comment first", map[string]string{"manifests/a.yaml": "# licence\n---\n" + secret}, []string{"Secret"}, nil},
		{"a List", map[string]string{"manifests/a.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]"}, []string{"Secret"}, nil},
		{"no YAML", map[string]string{"manifests/README.md": "Foo: [bar"}, nil, []string{"manifests/README.md: document 1: yaml: line 1: "}},
		{"no map", map[string]string{"manifests/a.yaml": "[1]"}, nil, []string{"manifests/a.yaml: document 1: is not a Kubernetes object: "}},
		{"no kind", map[string]string{"manifests/a.yaml": "a: 1"}, nil, []string{"manifests/a.yaml: is not a Kubernetes object, its kind is missing: it is ignored"}},
		{"empty", map[string]string{"manifests/a.yaml": "# nothing"}, nil, []string{"manifests/a.yaml: is empty: it is ignored"}},
		{"no name", map[string]string{"manifests/a.yaml": "kind: Secret"}, nil, nil},
		{"two CSVs", map[string]string{"manifests/d.yaml": strings.Replace(csvYAML, "foo.v1.2.3", "second", 1)}, nil,
			[]string{"manifests/d.yaml: a second ClusterServiceVersion beside the one in manifests/csv.yaml; a bundle has exactly one: it is ignored"}},
		{"a field of another type", map[string]string{"manifests/csv.yaml": strings.Replace(csvYAML, "displayName: Foo", "displayName: [Foo]", 1)}, nil,
			[]string{`ClusterServiceVersion "foo.v1.2.3": spec.displayName: json: cannot unmarshal array`}},
		{"properties that cannot be read", map[string]string{"metadata/properties.yaml": "properties: {}"}, nil,
			[]string{"metadata/properties.yaml: json: cannot unmarshal"}},
		{"dependencies that cannot be read", map[string]string{"metadata/dependencies.yaml": "a: ["}, nil, []string{"metadata/dependencies.yaml: document 1: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Load(bundleFS(c.changes))
			if err != nil {
				t.Fatal(err)
			}
			if b.Name() != "foo.v1.2.3" || b.Version.String() != "1.2.3" || b.Package != "foo" {
				t.Errorf("got name %q, version %s, package %q; want foo.v1.2.3, 1.2.3, foo", b.Name(), b.Version, b.Package)
			}

			var kinds []string
			for _, object := range b.Objects {
				kinds = append(kinds, object.GetKind())
			}

			if diff := cmp.Diff(c.objects, kinds); diff != "" {
				t.Errorf("kinds of objects (-want +got):\n%s", diff)
			}
			if len(b.Warnings) != len(c.warnings) {
				t.Fatalf("got warnings %q, want %q", b.Warnings, c.warnings)
			}

			for i, want := range c.warnings {
				if !strings.HasPrefix(b.Warnings[i], want) {
					t.Errorf("got warning %q, want one that starts with %q", b.Warnings[i], want)
				}
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	csv := func(from, to string) string { return strings.Replace(csvYAML, from, to, 1) }
	head, _, _ := strings.Cut(csvYAML, "spec:")
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"no annotations", map[string]string{"metadata/annotations.yaml": ""}, "Could not find annotations file"},
		{"annotations that cannot be read", map[string]string{"metadata/annotations.yaml": "a: ["}, "Could not find annotations file: metadata/annotations.yaml: yaml: "},
		{"no manifests", map[string]string{"manifests/csv.yaml": "", "manifests/crd.yaml": ""}, "manifests: file does not exist: this is not a registry+v1 bundle"},
		{"no objects", map[string]string{"manifests/csv.yaml": "# nothing", "manifests/crd.yaml": ""}, "no bundle objects found"},
		{"only a file that is not an object", map[string]string{"manifests/csv.yaml": "a: [", "manifests/crd.yaml": ""}, "no bundle objects found"},
		{"no CSV", map[string]string{"manifests/csv.yaml": ""}, "no csv in bundle"},
		{"a missing owned CRD", map[string]string{"manifests/csv.yaml": csvYAML + strings.Replace(ownedFoo, "v1beta1", "v2", 1)},
			"error checking provided apis in bundle foo.v1.2.3: couldn't find example.com/v2/Foo (foos) in bundle. found: map[example.com/v1/Foo (foos):{} example.com/v1beta1/Foo (foos):{}]"},
		{"an owned CRD without a group", map[string]string{"manifests/csv.yaml": csvYAML + strings.Replace(ownedFoo, "foos.example.com", "foos", 1)},
			"error checking provided apis in bundle foo.v1.2.3: couldn't parse plural.group from crd name: foos"},
		{"a required CRD without a group", map[string]string{"manifests/csv.yaml": csvYAML + "  customresourcedefinitions: {required: [{name: foos, kind: Foo, version: v1}]}"},
			`failed to derive properties: ClusterServiceVersion "foo.v1.2.3": required CRD: couldn't parse plural.group from crd name: foos`},
		{"an invalid CRD", map[string]string{"manifests/crd.yaml": strings.Replace(crdYAML, "group: example.com", "group: []", 1)},
			"error checking provided apis in bundle foo.v1.2.3: error decoding v1 CRD: json: cannot unmarshal array"},
		{"an invalid old CRD", map[string]string{"manifests/crd.yaml": strings.NewReplacer("k8s.io/v1", "k8s.io/v1beta1", "group: example.com", "group: 1").Replace(crdYAML)},
			"error checking provided apis in bundle foo.v1.2.3: error decoding v1beta1 CRD: json: cannot unmarshal number"},
		{"release", map[string]string{"manifests/csv.yaml": csv("version: 1.2.3", "version: 1.2.3\n  release: [1]")}, "failed to derive properties: release field must be a string or number"},
		{"version", map[string]string{"manifests/csv.yaml": csv("version: 1.2.3", "version: [1]")}, `ClusterServiceVersion "foo.v1.2.3": spec.version: a version must be a string, not [1]: put it in quotes`},
		{"numeric version", map[string]string{"manifests/csv.yaml": csv("version: 1.2.3", "version: 1.10")}, `ClusterServiceVersion "foo.v1.2.3": spec.version: a version must be a string, not 1.1: put it in quotes`},
		{"cut off before the spec", map[string]string{"manifests/csv.yaml": head}, `ClusterServiceVersion "foo.v1.2.3": spec is missing or not an object`},
		{"metadata", map[string]string{"manifests/csv.yaml": csv("name: foo.v1.2.3", "name: foo.v1.2.3\n  labels: 1")}, `ClusterServiceVersion "foo.v1.2.3": json: `},
		{"large file", map[string]string{"manifests/a.yaml": strings.Repeat("# large\n", maxFileBytes/8+1)}, "manifests/a.yaml: is larger than the 8388608 bytes that a file may have"},
		{"dependency", map[string]string{"metadata/dependencies.yaml": "dependencies: [{type: olm.gvk, value: a}]"}, `failed to derive properties: metadata/dependencies.yaml: parse dependency[0] of type "olm.gvk": json: cannot unmarshal string`},
		{"property", map[string]string{"metadata/properties.yaml": "properties: [{type: a, value: 1}, {type: olm.gvk, value: 1}]"}, `failed to derive properties: metadata/properties.yaml: parse property[1] of type "olm.gvk": json: cannot unmarshal number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Load(bundleFS(c.changes))
			if err == nil {
				_, err = b.FBC("", WithObjects)
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got error %v, want one that starts with %q", err, c.want)
			}
		})
	}
}

// TestLoadMetadataByContent checks that the names of metadata files do not matter, and that
// the first file with content wins.
func TestLoadMetadataByContent(t *testing.T) {
	fsys := bundleFS(map[string]string{
		"metadata/annotations.yaml": "",
		"metadata/a":                "annotations: {}",
		"metadata/b.txt":            strings.Replace(annotationsYAML, "stable, 4.10", "one,,two", 1),
		"metadata/c":                strings.Replace(annotationsYAML, "v1: foo", "v1: bar", 1),
		"metadata/p":                "properties: [{type: x, value: 1}]",
		"metadata/q":                "properties: [{type: y, value: 1}]",
		"metadata/sub/r":            "properties: [{type: z, value: 1}]",
		"metadata/x":                "dependencies: [{type: olm.package, value: {packageName: p, version: '>1.0.0'}}]",
	})

	b, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, b.Channels); b.Package != "foo" || diff != "" {
		t.Errorf("package %q, channels (-want +got):\n%s", b.Package, diff)
	}

	types := func(properties []fbc.Property) string {
		var types []string
		for _, p := range properties {
			types = append(types, p.Type)
		}
		return strings.Join(types, " ")
	}
	if got := types(b.Properties); got != "olm.gvk olm.gvk olm.package olm.package.required x" {
		t.Errorf("got the types of properties %s", got)
	}

	files, err := ReadFiles(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if got := types(files.Properties()) + ", " + types(files.Dependencies()); got != "x, olm.package" {
		t.Errorf("got the types of stated properties and dependencies %s", got)
	}
}

func TestLoadTakesAnyVersionAndPackage(t *testing.T) {
	for text, want := range map[string]string{"bogus": "bogus", "''": "", "null": "", "'1.10'": "1.10"} {
		b, err := Load(bundleFS(map[string]string{
			"manifests/csv.yaml":        strings.Replace(csvYAML, "version: 1.2.3", "version: "+text+"\n  release: 7", 1),
			"metadata/annotations.yaml": "annotations: {a: b}",
		}))
		if err != nil {
			t.Errorf("version %s: %v", text, err)
			continue
		}
		if got := string(b.CSV.Spec.Version); got != want || b.Package != "" || b.StatedVersion() != want {
			t.Errorf("version %s: got %q, package %q, property %q", text, got, b.Package, b.StatedVersion())
		}
	}
}

// TestPackagePropertyPrecedence checks the order of the merged properties: those of the file, the
// derived one, and those of the CSV's annotation. The last olm.package property wins.
func TestPackagePropertyPrecedence(t *testing.T) {
	properties := "properties: [{type: olm.package, value: {packageName: file, version: 1.0.0}}]"
	annotated := strings.Replace(csvYAML, "  annotations:\n", "  annotations:\n"+
		`    olm.properties: '[{"type": "olm.package", "value": {"version": "3.0.0",  "packageName": "annotation", "release": "r1"}}]'`+"\n", 1)
	for _, c := range []struct{ name, csv, want string }{
		{"derived", csvYAML, `{"packageName":"foo","version":"1.2.3"}`},
		{"annotation", annotated, `{"packageName":"annotation","version":"3.0.0","release":"r1"}`},
	} {
		b, err := Load(bundleFS(map[string]string{"manifests/csv.yaml": c.csv, "metadata/properties.yaml": properties}))
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, p := range b.Properties {
			if p.Type == fbc.PropertyPackage {
				got = append(got, string(p.Value))
			}
		}

		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s: olm.package (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestPlace(t *testing.T) {
	version := func(name, replaces string, skips ...string) *fstest.MapFile {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"replaces": replaces, "skips": skips, "displayName": []int{1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: text}
	}

	manifest := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("packageName: foo\nchannels:\n- {name: stable, currentCSV: foo.v3}\n- {name: beta, currentCSV: foo.v2}\n" + text)}
	}
	tree := func(edit func(fstest.MapFS)) fstest.MapFS {
		fsys := fstest.MapFS{
			"foo.package.yaml": manifest(""),
			"README.md":        {Data: []byte("# Foo: [")},
			"1/csv.yaml":       version("foo.v1", ""),
			"1/crd.yaml":       {Data: []byte(crdYAML)},
			"2/csv.yaml":       version("foo.v2", "foo.v1"),
			"3/csv.yaml":       version("foo.v3", "foo.v1", "foo.v2.1", "foo.v3"),
			"2.1/csv.yaml":     version("foo.v2.1", "gone"),
		}
		edit(fsys)
		return fsys
	}

	for _, c := range []struct {
		name   string
		folder string
		edit   func(fstest.MapFS)
		want   Placement
		err    string
	}{
		{"in both channels", "1", func(fstest.MapFS) {}, Placement{"foo", []string{"beta", "stable"}, ""}, ""},
		{"head", "2", func(fstest.MapFS) {}, Placement{"foo", []string{"beta"}, ""}, ""},
		{"skipped", "2.1", func(fstest.MapFS) {}, Placement{"foo", []string{"stable"}, ""}, ""},
		{"default channel", "3", func(f fstest.MapFS) { f["foo.package.yaml"] = manifest("defaultChannel: beta") }, Placement{"foo", []string{"stable"}, "beta"}, ""},
		{"only channel", "1", func(f fstest.MapFS) {
			f["foo.package.yaml"] = &fstest.MapFile{Data: []byte("packageName: foo\nchannels: [{name: a, currentCSV: foo.v1}]")}
		}, Placement{"foo", []string{"a"}, "a"}, ""},
		{"in no channel", "4", func(f fstest.MapFS) { f["4/csv.yaml"] = version("foo.v4", "foo.v3") }, Placement{"foo", nil, ""}, ""},
		{"no manifest", "1", func(f fstest.MapFS) { delete(f, "foo.package.yaml") }, Placement{}, "no package manifest beside the folder"},
		{"two manifests", "1", func(f fstest.MapFS) { f["b.yaml"] = manifest("") }, Placement{}, "2 package manifests beside the folder"},
		{"a folder without a CSV", "1", func(f fstest.MapFS) { f["metadata/annotations.yaml"] = &fstest.MapFile{} }, Placement{}, "metadata: holds 0 ClusterServiceVersions, it must hold one"},
		{"a folder with two CSVs", "1", func(f fstest.MapFS) { f["1/d.yaml"] = version("d", "") }, Placement{}, "1: holds 2 ClusterServiceVersions"},
		{"a CSV without a name", "1", func(f fstest.MapFS) { f["1/csv.yaml"] = version("", "") }, Placement{}, "1: holds no ClusterServiceVersion with a name"},
		{"another folder", "9", func(fstest.MapFS) {}, Placement{}, "9: holds no ClusterServiceVersion with a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FindPlacement(tree(c.edit), c.folder)
			if fmt.Sprint(err) != "<nil>" && (c.err == "" || !strings.HasPrefix(err.Error(), c.err)) || err == nil && c.err != "" {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("placement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetectMediaType(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
		err   string
	}{
		{"helm", map[string]string{"Chart.yaml": "name: foo\nversion: 1", "values.yaml": "a: 1", "csv.yaml": csvYAML, "templates/a.yaml": "{{ if }}"}, MediaTypeHelm, ""},
		{"a chart without a name", map[string]string{"Chart.yaml": "version: 1", "a.yaml": crdYAML}, MediaTypePlain, ""},
		{"an invalid chart", map[string]string{"Chart.yaml": "{{", "a.yaml": csvYAML}, MediaType, ""},
		{"registry", map[string]string{"crd.yaml": crdYAML, "csv.yaml": csvYAML}, MediaType, ""},
		{"CSV in a further document", map[string]string{"a.yaml": crdYAML + "---" + csvYAML}, MediaTypePlain, ""},
		{"plain", map[string]string{"crd.yaml": crdYAML, "b": "{"}, MediaTypePlain, ""},
		{"empty", map[string]string{"sub/a.yaml": csvYAML}, "", "The directory here contains no yaml files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range c.files {
				fsys["m/"+name] = &fstest.MapFile{Data: []byte(text)}
			}

			files, err := ReadManifests(fsys, "m")
			if err != nil {
				t.Fatal(err)
			}

			got, err := DetectMediaType(files, "here")
			if got != c.want || err != nil && err.Error() != c.err || err == nil && c.err != "" {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}

	if _, err := ReadManifests(fstest.MapFS{}, "m"); err == nil || err.Error() != "m: file does not exist" {
		t.Errorf("no folder: got error %v", err)
	}
}

func TestDescription(t *testing.T) {
	for name, d := range map[string]Description{
		"default":    {MediaType, "foo", "stable,4.10", "4.10"},
		"no-default": {MediaTypePlain, "foo", "1.0", ""},
	} {
		text, err := d.AnnotationsFile()
		if err != nil {
			t.Fatal(err)
		}

		golden.Check(t, name+".annotations.yaml", text)
		if differences, err := d.Compare(text); err != nil || len(differences) > 0 {
			t.Errorf("%s: got differences %v, %v from the written file, want none", name, differences, err)
		}

		dockerfile, err := d.Dockerfile("scratch", "deploy/1.0/manifests", "deploy/1.0/metadata")
		if err != nil {
			t.Fatal(err)
		}

		golden.Check(t, name+".Dockerfile", dockerfile)
	}

	if _, err := (Description{MediaType, "foo\nRUN x", "a", ""}).Dockerfile("scratch", "m", "n"); err == nil || !strings.Contains(err.Error(), "contains a control character") {
		t.Errorf("line break in the package: got error %v", err)
	}
	if _, err := (Description{MediaType, "foo", "a\x00", ""}).AnnotationsFile(); err == nil || !strings.Contains(err.Error(), "contains a control character") {
		t.Errorf("control character in the channels: got error %v", err)
	}
	if _, err := (Description{MediaType, "foo", "a", ""}).Dockerfile("scratch", "m\nRUN x", "n"); err == nil || !strings.Contains(err.Error(), "contains a line break") {
		t.Errorf("line break in a path: got error %v", err)
	}
}

func TestCompare(t *testing.T) {
	d := Description{MediaType, "foo", "stable", "stable"}
	existing := "annotations:\n  extra: 1\n  " + KeyPackage + ": bar\n  " + KeyManifests + ": manifests/\n  " + KeyMetadata + ": metadata/\n  " + KeyMediaType + ": registry+v1\n  " +
		KeyDefaultChannel + ": stable\n"
	got, err := d.Compare([]byte(existing))
	if err != nil {
		t.Fatal(err)
	}

	want := []string{
		`Expect field "operators.operatorframework.io.bundle.package.v1" to have value "foo" instead of "bar"`,
		"Missing field: operators.operatorframework.io.bundle.channels.v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if _, err := d.Compare([]byte("a: [")); err == nil {
		t.Error("got no error for invalid YAML, want one")
	}
}
