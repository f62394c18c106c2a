package indexdb

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// TestFromBundle checks the conversion of a loaded bundle.
func TestFromBundle(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	loaded, err := bundle.Load(fstest.MapFS{
		"metadata/annotations.yaml": file(`annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.package.v1: p
  operators.operatorframework.io.bundle.channels.v1: stable,candidate
  operators.operatorframework.io.bundle.channel.default.v1: stable
`),
		"metadata/dependencies.yaml": file(`dependencies:
- {type: olm.package, value: {packageName: q, version: ">=1.0.0"}}
- {type: olm.constraint, value: {failureMessage: a, cel: {rule: "true"}}}
- {type: olm.constraint, value: {failureMessage: both}}
`),
		"metadata/properties.yaml": file(`properties:
- {type: olm.constraint, value: {failureMessage: both}}
- {type: olm.constraint, value: {failureMessage: property}}
`),
		"manifests/csv.yaml": file(`apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: p.v1.1.0
  annotations: {olm.skipRange: <1.1.0, olm.substitutesFor: p.v1.0.9}
spec:
  version: 1.1.0
  replaces: p.v1.0.0
  skips: [p.v1.0.1, p.v1.0.2]
  unknown: kept
  relatedImages: [{name: a, image: registry.example/a}]
  customresourcedefinitions: {required: [{name: others.h.example, kind: Other, version: v2}]}
  apiservicedefinitions:
    owned: [{group: g.example, version: v1, kind: Served, name: serveds}]
    required: [{group: i.example, version: v3, kind: Far, name: fars}]
`),
		"manifests/crd.yaml": file(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.g.example}
spec:
  group: g.example
  names: {kind: Thing, plural: things}
  versions: [{name: v1}, {name: v2}]
`),
		"manifests/map.yaml": file("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}

	got, err := FromBundle(loaded, "registry.example/p:v1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got.CSV), `"unknown":"kept"`) {
		t.Errorf("got CSV %s, want its unknown field kept", got.CSV)
	}

	var kinds []string
	for _, object := range got.Objects {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(object, &head); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, head.Kind)
	}

	if len(kinds) != 3 {
		t.Errorf("got objects of kinds %q, want 3", kinds)
	}

	var constraints []string
	for _, p := range got.Properties {
		if p.Type == fbc.PropertyConstraint {
			constraints = append(constraints, string(p.Value))
		}
	}

	if diff := cmp.Diff([]string{`{"failureMessage":"both"}`, `{"failureMessage":"property"}`}, constraints); diff != "" {
		t.Errorf("constraints among the properties (-want +got):\n%s", diff)
	}

	got.CSV, got.Objects, got.Properties = nil, nil, nil
	want := Bundle{
		Package: "p", Name: "p.v1.1.0", Version: "1.1.0", Image: "registry.example/p:v1.1.0",
		Channels: []string{"stable", "candidate"}, DefaultChannel: "stable",
		Replaces: "p.v1.0.0", Skips: []string{"p.v1.0.1", "p.v1.0.2"}, SkipRange: "<1.1.0", SubstitutesFor: "p.v1.0.9",
		Dependencies: []fbc.Property{
			{Type: fbc.PropertyConstraint, Value: json.RawMessage(`{"cel":{"rule":"true"},"failureMessage":"a"}`)},
			{Type: fbc.PropertyConstraint, Value: json.RawMessage(`{"failureMessage":"both"}`)},
		},
		Provides: []API{
			{"g.example", "v1", "Served", "serveds"}, {"g.example", "v1", "Thing", "things"}, {"g.example", "v2", "Thing", "things"},
		},
		Requires:      []API{{"h.example", "v2", "Other", "others"}, {"i.example", "v3", "Far", "fars"}},
		RelatedImages: []string{"registry.example/a", "registry.example/p:v1.1.0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
}

func TestCheckBundle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Bundle)
		err    string
	}{
		"good":               {change: func(*Bundle) {}},
		"no package":         {func(b *Bundle) { b.Package = "" }, "package name not found"},
		"no name":            {func(b *Bundle) { b.Name = "" }, "csv name not found"},
		"no channel":         {func(b *Bundle) { b.Channels = nil }, "it names no channel to be added to"},
		"two CSVs":           {func(b *Bundle) { b.Objects = append(b.Objects, b.CSV) }, "two csvs found in one bundle"},
		"no CSV":             {change: func(b *Bundle) { b.CSV, b.Objects = nil, nil }},
		"objects of no JSON": {func(b *Bundle) { b.Objects = append(b.Objects, json.RawMessage("{")) }, "object 2: "},
		"a list in a name":   {func(b *Bundle) { b.Skips = []string{"a,b"} }, `it skips "a,b", which is not a bundle name`},
		"a property without a value": {func(b *Bundle) {
			b.Properties = append(b.Properties, fbc.Property{Type: "x"})
		}, `property "x": its value is not JSON`},
		"a property without a type": {change: func(b *Bundle) {
			b.Properties = append(b.Properties, fbc.Property{Value: json.RawMessage("{}")})
		}},
		"a dependency of another form": {func(b *Bundle) {
			b.Properties = append(b.Properties, fbc.Property{Type: fbc.PropertyPackageRequired, Value: json.RawMessage("7")})
		}, `property "olm.package.required": `},
		"a property twice": {change: func(b *Bundle) { b.Properties = append(b.Properties, b.Properties...) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundleSpec{version: "1.0.0", channels: "a"}.newBundle(t)
			c.change(&b)
			d := newFixture(t)
			err := d.editIndex(func(e *Editor) error { return e.Add(t.Context(), []Bundle{b}, AddOptions{}) })
			if c.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				d.expectCatalog("p default a", "  a", "    p.v1.0.0")
				return
			}

			if err == nil || !strings.HasPrefix(err.Error(), `failed to add bundle "`+b.Name+`": `+c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
		})
	}
}

func TestCompareBuilds(t *testing.T) {
	order := []string{"", "1", "2", "10", "010.1", "10.a", "99999999999999999999999", "a", "a.1", "a.b", "b"}
	for i, a := range order {
		for j, b := range order {
			got := compareBuilds(splitBuild(a), splitBuild(b))
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("comparing %q and %q: got %d, want their order in the list", a, b, got)
			}
		}
	}
}

func splitBuild(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ".")
}
