package template_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

func TestBasic(t *testing.T) {
	input := `---
schema: olm.template.basic
entries:
- schema: olm.package
  name: p
  defaultChannel: stable
- schema: olm.bundle
  image: a:1.0.0
- schema: olm.channel
  package: p
  name: stable
  entries:
  - name: a.v1.0.0
- schema: olm.bundle
  name: a name is not looked at
  image: several
- schema: olm.bundle
  image: a:1.0.0
- schema: own
  x: 1
---
schema: not read
`

	several := registry{"several": {{Blob: bundleBlob("p", "x", `"2.0.0"`, "x")}, {Blob: bundleBlob("p", "y", `"3.0.0"`, "y")}}}
	blobs, err := template.Render(context.Background(), template.Basic, []byte(input), several)
	if err != nil {
		t.Fatal(err)
	}

	const want = `olm.package p default stable
olm.bundle a.v1.0.0 a:1.0.0
olm.channel stable:
  a.v1.0.0
olm.bundle x x
olm.bundle y y
olm.bundle a.v1.0.0 a:1.0.0
own `
	if got := summarizeBlobs(t, blobs); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestBasicRefuses(t *testing.T) {
	entries := func(entry string) string { return `{"schema":"olm.template.basic","entries":[` + entry + `]}` }
	const unexpected = `unexpected fields present in basic template bundle`
	cases := map[string]struct{ input, want string }{
		"nothing":             {"", `decoding template schema: EOF`},
		"no YAML":             {"a: b: c", `decoding template schema: error converting YAML to JSON: yaml: mapping values are not allowed in this context`},
		"a list":              {"[]", `unmarshalling template: json: cannot unmarshal array into Go value of type template.document`},
		"another schema":      {`{"schema":"olm.semver"}`, `template has unknown schema ("olm.semver"), should be "olm.template.basic"`},
		"no schema":           {`{}`, `template has unknown schema (""), should be "olm.template.basic"`},
		"an entry, no schema": {entries(`{"name":"x"}`), `unmarshalling template: entries[0] …`},
		"an entry, no object": {entries(`{"schema":"a"},7`), `unmarshalling template: entries[1] …`},
		"an entry, null":      {entries(`null`), `unmarshalling template: entries[0] …`},
		"a channel, no list":  {entries(`{"schema":"olm.channel","package":"p","name":"c","entries":7}`), `parse channel: json: cannot unmarshal number into Go struct field Channel.entries of type []fbc.ChannelEntry`},
		"a bundle's package":  {entries(`{"schema":"olm.bundle","image":"a:1","package":"p"}`), unexpected},
		"its properties":      {entries(`{"schema":"olm.bundle","image":"a:1","properties":[{"type":"a","value":1}]}`), unexpected},
		"its related images":  {entries(`{"schema":"olm.bundle","image":"a:1","relatedImages":[{"name":"a","image":"b"}]}`), unexpected},
		"no image":            {entries(`{"schema":"olm.bundle"}`), unexpected},
		"a missing image":     {entries(`{"schema":"olm.bundle","image":"a"}`), `pulling a: no such image`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template.Render(context.Background(), template.Basic, []byte(c.input), registry{})
			checkError(t, err, c.want)
		})
	}
}

// A catalog that is converted and rendered again is unchanged.
func TestBasicRoundTrip(t *testing.T) {
	catalog := strings.Join([]string{
		`{"schema":"olm.package","name":"p","defaultChannel":"stable","description":"<d>"}`,
		`{"schema":"olm.channel","package":"p","name":"stable","entries":[{"name":"a.v1.1.0","replaces":"a.v1.0.0","skipRange":"<1.1.0"},{"name":"a.v1.0.0"}]}`,
		string(bundleBlob("p", "a.v1.1.0", `"1.1.0"`, "a:1.1.0").Blob), string(bundleBlob("p", "a.v1.0.0", `"1.0.0"`, "a:1.0.0").Blob),
		`{"schema":"own","package":"p","number":12345678901234567890,"text":"ü<>&"}`,
		`{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.bundle","name":"a.v1.0.0"},"message":"old"}]}`,
	}, "\n")

	converted, err := template.Convert(template.Basic, []byte(catalog))
	if err != nil {
		t.Fatal(err)
	}

	for form, input := range map[string][]byte{"JSON": converted.JSON(), "YAML": converted.YAML()} {
		blobs, err := template.Render(context.Background(), template.Basic, input, registry{})
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}

		var got []string
		for _, m := range blobs {
			got = append(got, string(m.Blob))
		}

		var want []string
		for line := range strings.SplitSeq(catalog, "\n") {
			want = append(want, string(parseBlob(line).Blob))
		}

		if form == "YAML" {
			// YAML does not support numbers with this many digits.
			got[4] = want[4]
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got:\n%s\nwant:\n%s", form, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
