package fields_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const bundle = `{"image":"i","name":"a.v1","package":"a",` +
	`"properties":[{"type":"olm.gvk","value":{"kind":"A"}},{"type":"olm.csv.metadata","value":{"description":"long"}},"text",{"type":5},{"value":1},{"type":"olm.gvk","value":{"kind":"B"}}],` +
	`"relatedImages":[],"schema":"olm.bundle"}`

func TestAppend(t *testing.T) {
	for name, test := range map[string]struct {
		fields, blob, want, canonical string
	}{
		"no fields":        {"", bundle, bundle, ""},
		"one":              {"image", bundle, `{"image":"i","name":"a.v1","package":"a","schema":"olm.bundle"}`, "image"},
		"only the head":    {"name", bundle, `{"name":"a.v1","package":"a","schema":"olm.bundle"}`, "name"},
		"unknown":          {"none", bundle, `{"name":"a.v1","package":"a","schema":"olm.bundle"}`, "none"},
		"of a type":        {"properties[olm.gvk]", bundle, `{"name":"a.v1","package":"a","properties":[{"type":"olm.gvk","value":{"kind":"A"}},{"type":"olm.gvk","value":{"kind":"B"}}],"schema":"olm.bundle"}`, "properties[olm.gvk]"},
		"of two types":     {"properties[olm.gvk],properties[olm.csv.metadata]", bundle, `{"name":"a.v1","package":"a","properties":[{"type":"olm.gvk","value":{"kind":"A"}},{"type":"olm.csv.metadata","value":{"description":"long"}},{"type":"olm.gvk","value":{"kind":"B"}}],"schema":"olm.bundle"}`, "properties[olm.csv.metadata],properties[olm.gvk]"},
		"of no type":       {"properties[x]", bundle, `{"name":"a.v1","package":"a","properties":[],"schema":"olm.bundle"}`, "properties[x]"},
		"type of no list":  {"image[x]", bundle, `{"name":"a.v1","package":"a","schema":"olm.bundle"}`, "image[x]"},
		"whole and a type": {"properties[olm.gvk],properties", `{"properties":[1],"schema":"s"}`, `{"properties":[1],"schema":"s"}`, "properties"},
		"type and whole":   {"properties,properties[olm.gvk]", `{"properties":[1],"schema":"s"}`, `{"properties":[1],"schema":"s"}`, "properties"},
		"without":          {"-properties,-relatedImages", bundle, `{"image":"i","name":"a.v1","package":"a","schema":"olm.bundle"}`, "-properties,-relatedimages"},
		"without types":    {"-properties[olm.gvk],-properties[olm.csv.metadata]", bundle, `{"image":"i","name":"a.v1","package":"a","properties":["text",{"type":5},{"value":1}],"relatedImages":[],"schema":"olm.bundle"}`, "-properties[olm.csv.metadata],-properties[olm.gvk]"},
		"without of other": {"-image[x]", bundle, bundle, "-image[x]"},
		"in any case":      {"IMAGE", `{"Image":"i","Schema":"s"}`, `{"Image":"i","Schema":"s"}`, "image"},
		"in any order":     {"b,a,b", `{"a":1,"b":[],"c":{},"schema":"s"}`, `{"a":1,"b":[],"schema":"s"}`, "a,b"},
		"odd types":        {`p[a"b é]`, `{"p":[{"type":"a\"b é"},{"type":"x"}],"schema":"s"}`, `{"p":[{"type":"a\"b é"}],"schema":"s"}`, `p[a"b é]`},
		"type comes last":  {"p[x]", `{"p":[{"a":{"type":"y"},"type":"x"}],"schema":"s"}`, `{"p":[{"a":{"type":"y"},"type":"x"}],"schema":"s"}`, "p[x]"},
		"nothing is left":  {"x", `{"a":1}`, `{}`, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := fields.Parse(test.fields)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("before"+test.want, string(f.Append([]byte("before"), []byte(test.blob)))); diff != "" {
				t.Errorf("blob (-want +got):\n%s", diff)
			}
			if f.String() != test.canonical {
				t.Errorf("the parameter is %q, want %q", f, test.canonical)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing between commas": {"a,,b", `"" does not begin with the name of a field`},
		"a blank":                {"a, b", `" b" does not begin with the name of a field`},
		"a path":                 {"a/b", `"a/b" does not begin with the name of a field`},
		"a leading dot":          {".a", `".a" does not begin with the name of a field`},
		"two kinds":              {"a,-b", "items with and without"},
		"two kinds, other way":   {"-a,b", "items with and without"},
		"without the name":       {"-name", `"name": schema, package and name are always given whole`},
		"without the Schema":     {"-Schema", `"Schema": schema, package and name are always given whole`},
		"types of the name":      {"name[x]", "schema, package and name are always given whole"},
		"not closed":             {"p[x", "a type stands in brackets"},
		"closed twice":           {"p[x]]", "a type stands in brackets"},
		"opened twice":           {"p[[x]", "a type stands in brackets"},
		"nothing in brackets":    {"p[]", "a type stands in brackets"},
		"after the brackets":     {"p[x].y", "a type stands in brackets"},
		"control characters":     {"p[\n]", "a type stands in brackets"},
		"not UTF-8":              {"p[\xff]", "not valid UTF-8"},
		"too long":               {strings.Repeat("a", 2001), "has 2001 bytes: at most 2000"},
		"too many":               {strings.Repeat("a,", 64) + "a", "has 65 items: at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := fields.Parse(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzFields compares the reduced text of a blob with its decoded form.
func FuzzFields(f *testing.F) {
	f.Add("properties[olm.gvk],image", bundle)
	f.Add("-properties[olm.gvk],-image", bundle)
	f.Add("a", `{"a":[{"type":"x"}],"schema":"s","B":null}`)
	f.Fuzz(func(t *testing.T, text, blob string) {
		parsed, err := fields.Parse(text)
		if err != nil {
			return
		}

		again, err := fields.Parse(parsed.String())
		if err != nil || again.String() != parsed.String() {
			t.Fatalf("%q: got %q, and %q after parsing it again (error %v), want the same", text, parsed, again, err)
		}

		compact, _, err := jsontext.Compact(nil, []byte(blob), 0)
		if err != nil || compact[0] != '{' {
			return
		}

		left := parsed.Append(nil, compact)
		if !json.Valid(left) {
			t.Fatalf("got %[2]s for %[1]s, want valid JSON", compact, left)
		}
		if twice := again.Append(nil, left); !slices.Equal(twice, left) {
			t.Fatalf("got %[3]s for the reduced blob %[2]s of %[1]s, want it unchanged", compact, left, twice)
		}
		if canonical, _, err := jsontext.Compact(nil, left, 0); err != nil || !slices.Equal(canonical, left) {
			t.Fatalf("got %s (error %v), want canonical JSON", left, err)
		}

		var before, after map[string]json.RawMessage
		if json.Unmarshal(compact, &before) != nil || json.Unmarshal(left, &after) != nil {
			t.Fatalf("got an error of decoding %s or %s, want none", compact, left)
		}

		for _, key := range []string{"schema", "package", "name"} {
			if string(before[key]) != string(after[key]) {
				t.Errorf("got %s %s of %s, want %s", key, after[key], compact, before[key])
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	blob, _, err := jsontext.Compact(nil, []byte(`{"schema":"olm.bundle","name":"n","package":"p","properties":[{"type":"olm.gvk","value":{"kind":"A"}},{"type":"olm.csv.metadata","value":{"description":"`+
		strings.Repeat(`text with \"quotes\" and\nlines `, 400)+`"}}]}`), 0)
	if err != nil {
		b.Fatal(err)
	}

	f, err := fields.Parse("-icon,-description,-properties[olm.csv.metadata]")
	if err != nil {
		b.Fatal(err)
	}

	b.SetBytes(int64(len(blob)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		out = f.Append(out[:0], blob)
	}
}
