package template_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// newSubstitutesInput returns a template of the bundles a.v1.0.0 and a.v1.1.0. Channels have the
// form "channel: entry; entry", substitutions the form "base name".
func newSubstitutesInput(channels []string, substitutions ...string) string {
	entries := []string{`{"schema":"olm.package","name":"p","defaultChannel":"stable"}`}
	for _, channel := range channels {
		name, list, _ := strings.Cut(channel, ": ")
		entries = append(entries, fmt.Sprintf(`{"schema":"olm.channel","package":"p","name":%q,"entries":[%s]}`, name, list))
	}

	for _, version := range []string{"1.0.0", "1.1.0"} {
		entries = append(entries, string(bundleBlob("p", "a.v"+version, fmt.Sprintf("%q", version), "a:"+version).Blob))
	}

	entries = append(entries, `{"schema":"own"}`)
	var pairs []string
	for _, s := range substitutions {
		base, name, _ := strings.Cut(s, " ")
		pairs = append(pairs, fmt.Sprintf(`{"base":%q,"name":%q}`, base, name))
	}

	return fmt.Sprintf(`{"schema":"olm.template.substitutes","entries":[%s],"substitutions":[%s]}`, strings.Join(entries, ","), strings.Join(pairs, ","))
}

const plainChannel = `stable: {"name":"a.v1.1.0","replaces":"a.v1.0.0"},{"name":"a.v1.0.0","replaces":"a.v0.1.0","skips":["a.v0.2.0"],"skipRange":"<1.0.0"}`

// newRebuiltRegistry returns images with releases of a.v1.0.0.
func newRebuiltRegistry() registry {
	release := func(r string) []template.Bundle {
		return []template.Bundle{{Blob: bundleBlob("p", "p-v1.0.0-"+r, `"1.0.0","release":"`+r+`"`, "r:"+r)}}
	}
	return registry{"r1": release("1"), "r2": release("2")}
}

func TestSubstitutes(t *testing.T) {
	cases := map[string]struct {
		channels      []string
		substitutions []string
		want          string
	}{
		"none": {[]string{plainChannel}, nil, `olm.channel stable:
  a.v1.1.0 replaces a.v1.0.0
  a.v1.0.0 replaces a.v0.1.0 skips a.v0.2.0 skipRange <1.0.0`},
		"one that is replaced": {[]string{plainChannel}, []string{"a.v1.0.0 r1"}, `olm.channel stable:
  a.v1.1.0 replaces p-v1.0.0-1 skips a.v1.0.0
  a.v1.0.0
  p-v1.0.0-1 replaces a.v0.1.0 skips a.v0.2.0,a.v1.0.0 skipRange <1.0.0`},
		"one that is replaced and one that is skipped": {
			[]string{plainChannel, `beta: {"name":"a.v1.1.0","skips":["a.v1.0.0","a.v0.9.0"]},{"name":"a.v1.0.0"}`},
			[]string{"a.v1.0.0 r1"}, `olm.channel stable:
  a.v1.1.0 replaces p-v1.0.0-1 skips a.v1.0.0
  a.v1.0.0
  p-v1.0.0-1 replaces a.v0.1.0 skips a.v0.2.0,a.v1.0.0 skipRange <1.0.0
olm.channel beta:
  a.v1.1.0 skips a.v0.9.0,p-v1.0.0-1
  a.v1.0.0
  p-v1.0.0-1 skips a.v1.0.0`,
		},
		"a channel that names the base without an entry": {
			[]string{plainChannel, `beta: {"name":"a.v1.1.0","replaces":"a.v1.0.0"}`},
			[]string{"a.v1.0.0 r1"}, `olm.channel stable:
  a.v1.1.0 replaces p-v1.0.0-1 skips a.v1.0.0
  a.v1.0.0
  p-v1.0.0-1 replaces a.v0.1.0 skips a.v0.2.0,a.v1.0.0 skipRange <1.0.0
olm.channel beta:
  a.v1.1.0 replaces p-v1.0.0-1 skips a.v1.0.0`,
		},
		"a substitute's substitute": {[]string{plainChannel}, []string{"a.v1.0.0 r1", "p-v1.0.0-1 r2"}, `olm.channel stable:
  a.v1.1.0 replaces p-v1.0.0-2 skips a.v1.0.0,p-v1.0.0-1
  a.v1.0.0
  p-v1.0.0-1
  p-v1.0.0-2 replaces a.v0.1.0 skips a.v0.2.0,a.v1.0.0,p-v1.0.0-1 skipRange <1.0.0`},
		"the head": {[]string{plainChannel}, []string{"a.v1.1.0 a:1.1.1"}, `olm.channel stable:
  a.v1.1.0
  a.v1.0.0 replaces a.v0.1.0 skips a.v0.2.0 skipRange <1.0.0
  a.v1.1.1 replaces a.v1.0.0 skips a.v1.1.0`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			blobs, err := template.Render(context.Background(), template.Substitutes, []byte(newSubstitutesInput(c.channels, c.substitutions...)), newRebuiltRegistry())
			if err != nil {
				t.Fatal(err)
			}

			got := summarizeBlobs(t, blobs)
			_, channels, _ := strings.Cut(got, "\n")
			channels, bundles, _ := strings.Cut(channels, "\nolm.bundle ")
			if channels != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", channels, c.want)
			}
			if count := strings.Count(bundles, "olm.bundle ") + 1; count != 2+len(c.substitutions) {
				t.Errorf("got %d bundles, want %d:\n%s", count, 2+len(c.substitutions), got)
			}
		})
	}
}

func TestSubstitutesRefuses(t *testing.T) {
	images := newRebuiltRegistry()
	images["none"] = nil
	images["low"] = []template.Bundle{{Blob: bundleBlob("p", "low", `"0.9.0"`, "low")}}
	images["equal"] = []template.Bundle{{Blob: bundleBlob("p", "equal", `"1.0.0"`, "equal")}}
	images["unversioned"] = []template.Bundle{{Blob: bundleBlob("p", "b", `"one"`, "b")}}
	images["foreign"] = []template.Bundle{{Blob: bundleBlob("q", "q.v3.0.0", `"3.0.0"`, "q")}}
	images["misnamed"] = []template.Bundle{{Blob: bundleBlob("p", "misnamed", `"1.0.0","release":"1"`, "b")}}
	images["channel"] = []template.Bundle{{Blob: parseBlob(`{"schema":"olm.channel","package":"p","name":"c"}`)}}
	of := func(substitutions ...string) string {
		return newSubstitutesInput([]string{plainChannel}, substitutions...)
	}
	const processing = `render: error processing substitution "a.v1.0.0" -> `
	cases := map[string]struct{ input, want string }{
		"nothing":               {``, `render: unable to parse template: decoding template schema: EOF`},
		"another schema":        {`{"schema":"olm.template.basic"}`, `render: unable to parse template: template has unknown schema ("olm.template.basic"), should be "olm.template.substitutes"`},
		"no substitution":       {`{"schema":"olm.template.substitutes","substitutions":[7]}`, `render: unable to parse template: unmarshalling template: json: cannot unmarshal number…`},
		"no blob":               {`{"schema":"olm.template.substitutes","entries":[7]}`, `render: unable to parse template: unmarshalling template: entries[0] …`},
		"no channel":            {`{"schema":"olm.template.substitutes","entries":[{"schema":"olm.channel","entries":7}]}`, `render: unable to create declarative config from entries: parse channel: json: …`},
		"no catalog":            {`{"schema":"olm.template.substitutes","entries":[{"schema":"olm.package","name":"p","defaultChannel":"c"}]}`, "render: entries are not valid FBC: invalid index:\n└── invalid package \"p\":\n    └── invalid channel \"c\":\n        └── channel must contain at least one bundle"},
		"a base twice":          {of("a.v1.0.0 r1", "a.v1.0.0 r2"), `render: cannot reuse the same substitution base "a.v1.0.0"`},
		"a name twice":          {of("a.v1.0.0 r1", "a.v1.1.0 r1"), `render: cannot reuse the same substitution "r1" for different bases ("a.v1.0.0" and "a.v1.1.0")`},
		"no name":               {of("a.v1.0.0 "), processing + `"": substitution name cannot be empty`},
		"no base":               {of(" r1"), `render: error processing substitution "" -> "r1": substitution base cannot be empty`},
		"the same":              {of("a.v1.0.0 a.v1.0.0"), processing + `"a.v1.0.0": substitution name and base cannot be the same`},
		"no image":              {of("a.v1.0.0 gone"), processing + `"gone": failed to render bundle image reference "gone": pulling gone: no such image`},
		"no bundle":             {of("a.v1.0.0 none"), processing + `"none": rendered bundle image reference "none" contains no bundles`},
		"no bundle, but a blob": {of("a.v1.0.0 channel"), processing + `"channel": failed to render bundle image reference "channel": …`},
		"no version":            {of("a.v1.0.0 unversioned"), processing + `"unversioned": failed to get VersionRelease for substitute bundle "b": invalid semver version "one" in "olm.package" property for bundle "b": No Major.Minor.Patch elements found`},
		"no such base":          {of("a.v3.0.0 r1"), `render: error processing substitution "a.v3.0.0" -> "r1": base bundle "a.v3.0.0" does not exist in catalog`},
		"lower":                 {of("a.v1.0.0 low"), processing + `"low": base bundle "a.v1.0.0" is not less than substitute bundle "low"`},
		"equal":                 {of("a.v1.0.0 equal"), processing + `"equal": base bundle "a.v1.0.0" is not less than substitute bundle "equal"`},
		"of another package":    {of("a.v1.0.0 foreign"), "render: resulting config is not valid FBC: …"},
		"not of its name":       {of("a.v1.0.0 misnamed"), "render: resulting config is not valid FBC: invalid index:\n└── invalid package \"p\":\n    └── invalid channel \"stable\":\n        └── invalid bundle \"misnamed\":\n            └── name \"misnamed\" does not match normalized name \"p-v1.0.0-1\""},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template.Render(context.Background(), template.Substitutes, []byte(c.input), images)
			checkError(t, err, c.want)
		})
	}
}
