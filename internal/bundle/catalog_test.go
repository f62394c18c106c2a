package bundle

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const fullSpec = `
  description: a <b> & c
  maturity: alpha
  minKubeVersion: 1.20.0
  keywords: [one]
  provider: {name: Foo Inc}
  links: [{name: home, url: https://foo.example}]
  maintainers: [{name: F, email: f@foo.example}]
  nativeAPIs: [{group: apps, version: v1, kind: Deployment}]
  relatedImages:
  - {name: operand, image: registry.example/operand:v1}
  - {name: controller, image: registry.example/controller:v1}
  customresourcedefinitions:
    owned:
    - name: foos.example.com
      version: v1
      kind: Foo
      specDescriptors: [{path: size, x-descriptors: [urn:count], value: {a: 1}}]
    required: [{name: bars.example.org, version: v2, kind: Bar}]
  apiservicedefinitions:
    owned: [{name: bazs, group: example.net, version: v1, kind: Baz, deploymentName: foo}]
    required: [{name: quxs, group: example.net, version: v3, kind: Qux}]
`

const fullDeployments = `  install:
    strategy: deployment
    spec:
      deployments:
      - name: foo
        spec:
          selector: {}
          template:
            spec:
              initContainers: [{name: i, image: registry.example/init:v1}]
              containers:
              - {name: c, image: registry.example/controller:v1}
              - {name: d, image: registry.example/proxy:v1}
`

func fullFS() fstest.MapFS {
	csv := strings.Replace(csvYAML, "  install:\n    strategy: deployment\n", fullDeployments, 1) + fullSpec
	csv = strings.Replace(csv, "  annotations:\n", `  labels: {arch.amd64: supported}
  annotations:
    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}, {"type": "custom", "value": {"b": 1,  "a": 2}}]'
`, 1)
	return bundleFS(map[string]string{
		"manifests/csv.yaml": csv,
		"manifests/old.yaml": "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: olds.example.com}\n" +
			"spec: {group: example.com, version: v1alpha1, names: {kind: Old}}",
		"metadata/properties.yaml": `properties:
- {type: olm.package, value: {packageName: stale, version: 0.0.1}}
- {type: custom, value: {b: 1, a: 2}}
- {type: olm.gvk, value: {version: v1, group: example.com, kind: Foo}}
`,
		"metadata/dependencies.yaml": `dependencies:
- {type: olm.package, value: {packageName: bar, version: ">=1.0.0 <2.0.0"}}
- {type: olm.gvk, value: {group: example.org, kind: Bar, version: v2}}
- {type: olm.constraint, value: {failureMessage: no, cel: {rule: "true"}}}
`,
	})
}

func fullBundle(t *testing.T) *Bundle {
	t.Helper()
	b, err := Load(fullFS())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func indentedJSON(t *testing.T, blob any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(blob, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestFBC(t *testing.T) {
	b := fullBundle(t)
	metadata, err := b.FBC("registry.example/foo-bundle:v1.2.3", WithMetadata)
	if err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "full.bundle.json", indentedJSON(t, metadata))
	objects, err := b.FBC("registry.example/foo-bundle:v1.2.3", WithObjects)
	if err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "full.objects.json", indentedJSON(t, objects))
	// The migrated blob with objects equals the blob with metadata.
	if err := Migrate(&objects, MigrateAll); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metadata, objects); diff != "" {
		t.Errorf("migrated blob (-want +got):\n%s", diff)
	}
}

// TestBundleObjects checks the encoding of manifests: JSON without spaces, with sorted
// keys, with <, > and & escaped.
func TestBundleObjects(t *testing.T) {
	b := mustLoad(t, map[string]string{"manifests/a.yaml": "kind: Secret\nmetadata: {name: a}\napiVersion: v1\nstringData: {b: <x>, a: 1 & 2, z: null}\nfloat: 1.50\nint: 9007199254740993"})
	blob, err := b.FBC("", WithObjects)
	if err != nil {
		t.Fatal(err)
	}

	objects, err := Objects(&blob)
	if err != nil {
		t.Fatal(err)
	}

	want := `{"apiVersion":"v1","float":1.5,"int":9007199254740993,"kind":"Secret","metadata":{"name":"a"},"stringData":{"a":"1 \u0026 2","b":"\u003cx\u003e","z":null}}`
	if !slices.ContainsFunc(objects, func(o json.RawMessage) bool { return string(o) == want }) {
		t.Errorf("got objects %s, want %s among them", objects, want)
	}
	if csv, err := CSV(&blob); err != nil || !strings.Contains(string(csv), `"name":"foo.v1.2.3"`) {
		t.Errorf("got CSV %s, %v", csv, err)
	}

	last := blob.Properties[len(blob.Properties)-3:]
	for i, p := range last {
		if p.Type != fbc.PropertyBundleObject || i > 0 && string(last[i-1].Value) >= string(p.Value) {
			t.Errorf("property %d of the last three: got %s %s", i, p.Type, p.Value)
		}
	}
}

func TestRelatedImages(t *testing.T) {
	const image = "registry.example/foo-bundle:v1.2.3"
	only := strings.Replace(csvYAML, "  install:\n    strategy: deployment\n", fullDeployments, 1)
	for _, c := range []struct {
		name, csv, image string
		want             []fbc.RelatedImage
	}{
		{"of deployments only", only, "", []fbc.RelatedImage{
			{Image: "registry.example/controller:v1"}, {Image: "registry.example/init:v1"}, {Image: "registry.example/proxy:v1"},
		}},
		{"another strategy", strings.Replace(only, "strategy: deployment", "strategy: other", 1), "", nil},
		{"the bundle's is listed", csvYAML + "  relatedImages: [{name: self, image: " + image + "}, {name: b, image: b}, {name: a, image: b}]", image, []fbc.RelatedImage{
			{Name: "b", Image: "b"}, {Name: "a", Image: "b"}, {Name: "self", Image: image},
		}},
		{"the bundle's is not listed", csvYAML, image, []fbc.RelatedImage{{Image: image}}},
	} {
		blob, err := mustLoad(t, map[string]string{"manifests/csv.yaml": c.csv}).FBC(c.image, WithObjects)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, blob.RelatedImages); diff != "" {
			t.Errorf("%s: related images (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestPropertiesAreCanonical checks that properties that differ only in spaces, or in the
// order of a known type's fields, are equal and have one encoding.
func TestPropertiesAreCanonical(t *testing.T) {
	csv := strings.Replace(csvYAML, "  annotations:\n", "  annotations:\n    olm.properties: '"+
		`[{"type": "custom", "value": {"a":   1}}, {"type": "custom", "value": {"a":1}}, {"type": "olm.package.required", "value": {"versionRange": "<2", "packageName": "bar"}},`+
		` {"type": "olm.gvk", "value": {"version": "v1", "kind": "Foo", "group": "example.com"}}]`+"'\n", 1)
	b := mustLoad(t, map[string]string{
		"manifests/csv.yaml":         csv,
		"metadata/dependencies.yaml": "dependencies: [{type: olm.package, value: {packageName: bar, version: '<2'}}]",
	})
	var got []string
	for _, p := range b.Properties {
		got = append(got, p.Type+" "+string(p.Value))
	}

	want := []string{
		`custom {"a":1}`,
		`olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}`,
		`olm.gvk {"group":"example.com","kind":"Foo","version":"v1beta1"}`,
		`olm.package {"packageName":"foo","version":"1.2.3"}`,
		`olm.package.required {"packageName":"bar","versionRange":"<2"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestArrange(t *testing.T) {
	property := func(kind, value string) fbc.Property { return fbc.Property{Type: kind, Value: json.RawMessage(value)} }
	b := fbc.Bundle{
		Properties: []fbc.Property{
			property("olm.bundle.object", "2"), property("z", "1"), property("olm.csv.metadata", "1"), property("a", "1"), property("olm.bundle.object", "1"),
		},
		RelatedImages: []fbc.RelatedImage{{Name: "2", Image: "b"}, {Name: "1", Image: "b"}, {Image: "a"}},
	}

	SortManifestPropertiesLast(&b)
	var got []string
	for _, p := range b.Properties {
		got = append(got, p.Type+" "+string(p.Value))
	}

	for _, r := range b.RelatedImages {
		got = append(got, r.Name+" "+r.Image)
	}

	want := []string{"z 1", "a 1", "olm.bundle.object 2", "olm.csv.metadata 1", "olm.bundle.object 1", " a", "2 b", "1 b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arranged (-want +got):\n%s", diff)
	}
}

func TestFBCWithoutImage(t *testing.T) {
	b := mustLoad(t, nil)
	before := len(b.Properties)
	blob, err := b.FBC("", WithMetadata)
	if err != nil {
		t.Fatal(err)
	}
	if blob.Image != "" || len(blob.RelatedImages) != 0 {
		t.Errorf("got image %q, related images %v; want none", blob.Image, blob.RelatedImages)
	}
	if len(b.Properties) != before {
		t.Errorf("got other properties of the bundle after FBC, want the same")
	}
}

func TestChannelEntry(t *testing.T) {
	want := fbc.ChannelEntry{Name: "foo.v1.2.3", Replaces: "foo.v1.2.2", Skips: []string{"foo.v1.2.1"}, SkipRange: ">=1.0.0 <1.2.3"}
	if diff := cmp.Diff(want, mustLoad(t, nil).ChannelEntry()); diff != "" {
		t.Errorf("channel entry (-want +got):\n%s", diff)
	}
}

func TestAnnotationPropertiesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"nonsense", `{"type": "a"}`, `[{"type": "a", "value": 1}, {"type": "olm.gvk"}]`} {
		csv := strings.Replace(csvYAML, "  annotations:\n", "  annotations:\n    olm.properties: '"+text+"'\n", 1)
		b := mustLoad(t, map[string]string{"manifests/csv.yaml": csv})
		if len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], `ClusterServiceVersion "foo.v1.2.3": annotation olm.properties is ignored`) {
			t.Errorf("%s: got warnings %q", text, b.Warnings)
		}
		if len(b.Properties) != 3 { // olm.package and two olm.gvk
			t.Errorf("%s: got properties %v", text, b.Properties)
		}
	}
}
