package bundle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func TestParseMigration(t *testing.T) {
	for name, want := range map[string]Migration{
		"": MigrateNone, "none": MigrateNone, "bundle-object-to-csv-metadata": MigrateObjectsToMetadata, "all": MigrateAll,
	} {
		if got, err := ParseMigration(name); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", name, got, err, want)
		}
	}

	if _, err := ParseMigration("All"); err == nil || err.Error() != `unknown migration level "All"` {
		t.Errorf("got error %v", err)
	}
}

func objectPropertyOf(t *testing.T, text string) fbc.Property {
	t.Helper()
	raw, err := json.Marshal(ObjectProperty{Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return fbc.Property{Type: fbc.PropertyBundleObject, Value: raw}
}

func TestMigrate(t *testing.T) {
	csv := objectPropertyOf(t, `{"kind":"ClusterServiceVersion","metadata":{"name":"a","annotations":{"x":"<y>"}},"spec":{"DisplayName":"Foo","unknown":1,"version":1.5}}`)
	inYAML := objectPropertyOf(t, "kind: ClusterServiceVersion\nspec: {displayName: Foo}\n")
	secret := objectPropertyOf(t, `{"kind":"Secret"}`)
	before := fbc.Property{Type: "a", Value: json.RawMessage(`1`)}
	after := fbc.Property{Type: "z", Value: json.RawMessage(`1`)}
	metadata := func(text string) fbc.Property {
		return fbc.Property{Type: fbc.PropertyCSVMetadata, Value: json.RawMessage(text)}
	}
	existing := metadata(`{"displayName":"there"}`)
	for _, c := range []struct {
		name  string
		image string
		level Migration
		in    []fbc.Property
		want  []fbc.Property
		err   string
	}{
		{"metadata for objects", "i", MigrateAll, []fbc.Property{before, secret, csv, after},
			[]fbc.Property{before, after, metadata(`{"annotations":{"x":"<y>"},"apiServiceDefinitions":{},"crdDescriptions":{},"displayName":"Foo","provider":{}}`)}, ""},
		{"by its name, YAML", "i", MigrateObjectsToMetadata, []fbc.Property{inYAML},
			[]fbc.Property{metadata(`{"apiServiceDefinitions":{},"crdDescriptions":{},"displayName":"Foo","provider":{}}`)}, ""},
		{"none", "i", MigrateNone, []fbc.Property{csv}, []fbc.Property{csv}, ""},
		{"no image", "", MigrateAll, []fbc.Property{csv}, []fbc.Property{csv}, ""},
		{"no CSV", "i", MigrateAll, []fbc.Property{secret}, []fbc.Property{secret}, ""},
		{"no objects", "i", MigrateAll, []fbc.Property{before}, []fbc.Property{before}, ""},
		{"metadata exists", "i", MigrateAll, []fbc.Property{csv, existing}, []fbc.Property{csv, existing}, ""},
		{"the first CSV counts", "i", MigrateAll, []fbc.Property{inYAML, objectPropertyOf(t, `{"kind":"ClusterServiceVersion","spec":{"displayName":"Bar"}}`)},
			[]fbc.Property{metadata(`{"apiServiceDefinitions":{},"crdDescriptions":{},"displayName":"Foo","provider":{}}`)}, ""},
		{"no base64", "i", MigrateAll, []fbc.Property{{Type: fbc.PropertyBundleObject, Value: json.RawMessage(`{"data":"*"}`)}},
			nil, `bundle "b": bundle-object-to-csv-metadata: parse property at index 0 as bundle object: illegal base64 data at input byte 0`},
		{"no object", "i", MigrateAll, []fbc.Property{before, objectPropertyOf(t, "a: [")}, nil, `bundle "b": bundle-object-to-csv-metadata: convert bundle object property at index 1 to JSON: document 1: `},
		{"an empty object", "i", MigrateAll, []fbc.Property{objectPropertyOf(t, "")}, nil, `bundle "b": bundle-object-to-csv-metadata: convert bundle object property at index 0 to JSON: holds no object`},
		{"no CSV by its type", "i", MigrateAll, []fbc.Property{objectPropertyOf(t, `{"kind":"ClusterServiceVersion","spec":1}`)}, nil, `bundle "b": bundle-object-to-csv-metadata: ClusterServiceVersion: json: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := append([]fbc.Property(nil), c.in...)
			b := fbc.Bundle{Name: "b", Image: c.image, Properties: c.in}
			err := Migrate(&b, c.level)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("got error %v, want one that starts with %q", err, c.err)
				}
				c.want = in // The bundle must not change.
			} else if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(c.want, b.Properties); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(in, c.in); diff != "" {
				t.Errorf("the original properties (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMigrateLarge(t *testing.T) {
	b := fbc.Bundle{Name: "b", Image: "i", Properties: []fbc.Property{objectPropertyOf(t, strings.Repeat(" ", maxFileBytes+1))}}
	const want = `bundle "b": bundle-object-to-csv-metadata: convert bundle object property at index 0 to JSON: is larger than the 8388608 bytes that a manifest may have`
	if err := Migrate(&b, MigrateAll); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func TestImageTemplate(t *testing.T) {
	b := mustLoad(t, map[string]string{"metadata/properties.yaml": "properties: [{type: olm.package, value: {packageName: a, version: 0.0.1}}]"})
	for text, want := range map[string]string{
		"test.registry/{{.Package}}-bundle:v{{.Version}}": "test.registry/foo-bundle:v1.2.3",
		"r/{{.Name}}": "r/foo.v1.2.3",
		"":            "",
	} {
		template, err := ParseImageTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Image(b, "dir"); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}

	if _, err := ParseImageTemplate("{{"); err == nil || !strings.HasPrefix(err.Error(), "invalid image reference template: template: ") {
		t.Errorf("got error %v", err)
	}

	template, err := ParseImageTemplate("{{.Channel}}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := template.Image(b, "./dir"); err == nil || !strings.HasPrefix(err.Error(), `failed templating image reference from bundle for "./dir": template: `) {
		t.Errorf("got error %v", err)
	}
}

func FuzzMigrate(f *testing.F) {
	f.Add([]byte(`{"kind":"ClusterServiceVersion","spec":{"displayName":"a"}}`), `{"data":"e30="}`)
	f.Add([]byte("kind: ClusterServiceVersion\nspec: {version: 1}"), `{"data":1}`)
	f.Add([]byte("a: &a [*a]"), `null`)
	f.Fuzz(func(t *testing.T, data []byte, raw string) {
		value, err := json.Marshal(ObjectProperty{Data: data})
		if err != nil {
			t.Fatal(err)
		}

		properties := []fbc.Property{{Type: fbc.PropertyBundleObject, Value: value}, {Type: fbc.PropertyBundleObject, Value: json.RawMessage(raw)}}
		b := fbc.Bundle{Image: "i", Properties: properties}
		if err := Migrate(&b, MigrateAll); err != nil {
			return
		}

		once := append([]fbc.Property(nil), b.Properties...)
		if err := Migrate(&b, MigrateAll); err != nil {
			t.Fatalf("got error %v from the second migration, want none", err)
		}
		if diff := cmp.Diff(once, b.Properties); diff != "" {
			t.Errorf("bundle after the second migration (-want +got):\n%s", diff)
		}
	})
}
