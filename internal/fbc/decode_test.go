package fbc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
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

func load(t *testing.T, text, pkg string) (*fbc.Content, error) {
	t.Helper()
	return fbc.LoadContent(pkg, fbc.Read(strings.NewReader(text), "catalog", fbc.Limits{}))
}

func TestLoadContentGathersOnePackage(t *testing.T) {
	got, err := load(t, twoPackages, "a")
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
		"two packages":     {`{"schema":"olm.package","name":"a"}{"schema":"olm.package","name":"a"}`, "a", `blob of schema olm.package, name "a" stands twice in the catalog`},
		"two deprecations": {`{"schema":"olm.deprecations","package":"a"}{"schema":"olm.deprecations","package":"a"}`, "a", `stands twice in the catalog`},
		"broken icon":      {`{"schema":"olm.package","name":"a","icon":{"base64data":"%"}}`, "a", `illegal base64 data`},
		"broken blob":      {`{"schema":"olm.package"`, "a", `ends in the middle`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.text, test.pkg)
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v (%T), want an *fbc.Error with %q", err, err, test.want)
			}
		})
	}
}

func TestDecodeRefusesAnotherSchema(t *testing.T) {
	_, err := fbc.DecodeBundle(fbc.Meta{Schema: "olm.channel", Package: "p", Name: "c", Blob: json.RawMessage("{}")})
	const want = `blob of schema olm.channel, package "p", name "c" is not of the schema olm.bundle`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
