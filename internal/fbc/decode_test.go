package fbc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const twoPackages = `
{"schema":"olm.package","name":"a","defaultChannel":"stable","icon":{"base64data":"aGk=","mediatype":"image/png"}}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v2","replaces":"a.v1","skips":["a.v0"],"skipRange":"<2.0.0"}]}
{"schema":"olm.bundle","package":"a","name":"a.v2","image":"example.com/a@sha256:1","properties":[{"type":"olm.package","value":{"packageName":"a","version":"2.0.0"}}],"relatedImages":[{"name":"x","image":"y"}]}
{"schema":"olm.deprecations","package":"a","entries":[{"reference":{"schema":"olm.bundle","name":"a.v2"},"message":"old"}]}
{"schema":"example.com/own","package":"a"}
{"schema":"olm.package","name":"b","defaultChannel":"stable"}
{"schema":"olm.channel","package":"b","name":"stable","entries":"nonsense"}
`

func loadContent(t *testing.T, text, pkg string) (*fbc.Content, error) {
	t.Helper()
	return fbc.LoadContent(pkg, fbc.Read(strings.NewReader(text), "catalog", fbc.Limits{}))
}

func TestLoadContentGathersOnePackage(t *testing.T) {
	got, err := loadContent(t, twoPackages, "a")
	if err != nil {
		t.Fatal(err)
	}

	want := &fbc.Content{
		Package: &fbc.Package{Schema: "olm.package", Name: "a", DefaultChannel: "stable", Icon: &fbc.Icon{Data: []byte("hi"), MediaType: "image/png"}},
		Channels: []fbc.Channel{{Schema: "olm.channel", Package: "a", Name: "stable", Entries: []fbc.ChannelEntry{
			{Name: "a.v2", Replaces: "a.v1", Skips: []string{"a.v0"}, SkipRange: "<2.0.0"}}}},
		Bundles: []fbc.Bundle{{Schema: "olm.bundle", Package: "a", Name: "a.v2", Image: "example.com/a@sha256:1",
			Properties:    []fbc.Property{{Type: "olm.package", Value: json.RawMessage(`{"packageName":"a","version":"2.0.0"}`)}},
			RelatedImages: []fbc.RelatedImage{{Name: "x", Image: "y"}}}},
		Deprecations: &fbc.Deprecations{Schema: "olm.deprecations", Package: "a", Entries: []fbc.DeprecationEntry{
			{Reference: fbc.DeprecationReference{Schema: "olm.bundle", Name: "a.v2"}, Message: "old"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestLoadContentSaysWhatDoesNotFit(t *testing.T) {
	for name, test := range map[string]struct{ text, pkg, want string }{
		"wrong type":       {twoPackages, "b", `blob of schema olm.channel, package "b", name "stable" does not fit its schema`},
		"two packages":     {`{"schema":"olm.package","name":"a"}{"schema":"olm.package","name":"a"}`, "a", `blob of schema olm.package, name "a" occurs twice in the catalog`},
		"two deprecations": {`{"schema":"olm.deprecations","package":"a"}{"schema":"olm.deprecations","package":"a"}`, "a", `occurs twice in the catalog`},
		"broken icon":      {`{"schema":"olm.package","name":"a","icon":{"base64data":"%"}}`, "a", `illegal base64 data`},
		"broken blob":      {`{"schema":"olm.package"`, "a", `ends in the middle`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadContent(t, test.text, test.pkg)
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v (%T), want an *fbc.Error with %q", err, err, test.want)
			}
		})
	}
}

func TestDecodeRefusesAnotherSchema(t *testing.T) {
	_, err := fbc.DecodeBundle(fbc.Meta{Schema: "olm.channel", Package: "p", Name: "c", Blob: json.RawMessage("{}")})
	const want = `blob of schema olm.channel, package "p", name "c" is not of the schema olm.bundle`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestDecodeErrorsSayWhere(t *testing.T) {
	text := "schema: olm.channel\nname: c\n---\nschema: olm.package\nname: a\nicon: {base64data: '%'}\n"
	_, err := loadContent(t, text, "a")
	const want = "catalog: document 2 (line 4, byte 32): blob of schema olm.package, name \"a\" does not fit its schema: illegal base64 data at input byte 0"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

// decodeSeeds are blobs with all fields of the schemas, and unusual ones.
var decodeSeeds = []string{
	`{"schema":"olm.package","name":"a","defaultChannel":"s","icon":{"base64data":"aGk=","mediatype":"m"},"description":"d","properties":[{"type":"t","value":1}]}`,
	`{"schema":"olm.package","icon":null,"properties":null,"name":null}`, `{"icon":{"base64data":null}}`, `{"icon":{"base64data":"a\nGk="}}`, `{"icon":{"base64data":"!"}}`,
	`{"icon":{"base64data":[1,2]}}`, `{"icon":[]}`, `{"icon":{"Base64Data":"aGk="}}`, `{"properties":[]}`, `{"properties":{}}`, `{"properties":[null,{"type":"x"},{"value":null}]}`,
	`{"properties":[{"type":"olm.gvk","value":{"group":"g"},"extra":[1,{"a":"]"}]}]}`, `{"properties":[{"Type":"a","type":"b"}]}`, `{"properties":[{"type":1}]}`, `{"properties":[1]}`,
	`{"entries":[{"name":"a","replaces":"b","skips":["c",null,"d"],"skipRange":"<1"}]}`, `{"entries":[{"skips":[1]}]}`, `{"entries":[{"Skips":["a","b"],"skips":["c"]}]}`, `{"entries":null}`,
	`{"entries":[{"reference":{"schema":"olm.bundle","name":"n"},"message":"m"},{"reference":null,"message":null}]}`, `{"entries":[{"reference":[]}]}`,
	`{"image":"i","relatedImages":[{"name":"n","image":"i","x":1},null]}`, `{"relatedImages":"x"}`, `{"\u017fchema":"x","PACKAGE":"p"}`, `{"name":"\ud800\u2028<"}`, `{}`, `[]`, `null`, `"x"`,
}

// FuzzDecode compares with encoding/json.
func FuzzDecode(f *testing.F) {
	for _, seed := range decodeSeeds {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		canonical, _, err := jsontext.Compact(nil, text, 50)
		if err != nil {
			return
		}

		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil && compact.Len() == len(canonical) {
			// Keys are in any order, as in in-memory blobs. The length shows whether there are
			// duplicate keys.
			checkDecode(t, compact.Bytes())
		}

		checkDecode(t, canonical)
	})
}

func checkDecode(t *testing.T, blob []byte) {
	t.Helper()
	compareDecode(t, blob, fbc.SchemaPackage, fbc.DecodePackage)
	compareDecode(t, blob, fbc.SchemaChannel, fbc.DecodeChannel)
	compareDecode(t, blob, fbc.SchemaBundle, fbc.DecodeBundle)
	compareDecode(t, blob, fbc.SchemaDeprecations, fbc.DecodeDeprecations)
}

func compareDecode[T any](t *testing.T, blob []byte, schema string, decode func(fbc.Meta) (*T, error)) {
	t.Helper()
	want := new(T)
	wantErr := json.Unmarshal(blob, want)
	got, err := decode(fbc.Meta{Schema: schema, Blob: blob})
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s as %s: got error %v, want %v", blob, schema, err, wantErr)
	}

	if wantErr != nil {
		if !strings.HasSuffix(err.Error(), wantErr.Error()) {
			t.Errorf("%s as %s: got error %v, want %v", blob, schema, err, wantErr)
		}
		return
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s as %s (-want +got):\n%s", blob, schema, diff)
	}
}
