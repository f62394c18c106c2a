package template_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// newSemverInput returns a template with bundles a:<version> for archetypes, each after its name.
func newSemverInput(options string, lists ...string) string {
	var text strings.Builder
	text.WriteString("schema: olm.semver\n" + options)
	for _, list := range lists {
		words := strings.Fields(list)
		text.WriteString(words[0] + ":\n  bundles:\n")
		for _, version := range words[1:] {
			text.WriteString("  - image: a:" + version + "\n")
		}
	}

	return text.String()
}

// shorten reduces the names of bundles to their versions.
var shorten = strings.NewReplacer("a.v", "")

const (
	major = "generateMajorChannels: true\n"
	minor = "generateMinorChannels: true\n"
)

func TestSemverChannels(t *testing.T) {
	cases := map[string]struct {
		input string
		want  string
	}{
		"one major channel for each major version": {
			input: newSemverInput(major, "stable 0.1.0 0.1.1 1.1.0 1.2.1 1.3.1 2.1.0 2.1.1 2.3.1 2.3.2"),
			want: `olm.package p default stable-v2
olm.channel stable-v0:
  0.1.0
  0.1.1 skips 0.1.0
olm.channel stable-v1:
  1.1.0
  1.2.1 replaces 1.1.0
  1.3.1 replaces 1.2.1 skips 1.1.0
olm.channel stable-v2:
  2.1.0
  2.1.1 skips 2.1.0
  2.3.1
  2.3.2 replaces 2.1.1 skips 2.1.0,2.3.1`,
		},
		"the last bundle starts a new major version": {
			input: newSemverInput(major, "stable 0.1.0 0.1.1 1.0.0"),
			want: `olm.package p default stable-v1
olm.channel stable-v0:
  0.1.0
  0.1.1 skips 0.1.0
olm.channel stable-v1:
  1.0.0`,
		},
		"one bundle":                  {input: newSemverInput("", "fast 1.0.0"), want: "olm.package p default fast-v1.0\nolm.channel fast-v1.0:\n  1.0.0"},
		"one bundle, major":           {input: newSemverInput(major, "fast 1.0.0"), want: "olm.package p default fast-v1\nolm.channel fast-v1:\n  1.0.0"},
		"a pre-release, in any order": {input: newSemverInput(minor, "stable 1.3.1 1.3.1-beta 1.2.0"), want: "olm.package p default stable-v1.3\nolm.channel stable-v1.2:\n  1.2.0\nolm.channel stable-v1.3:\n  1.3.1-beta\n  1.3.1 replaces 1.2.0 skips 1.3.1-beta"},
		"major and minor": {
			input: newSemverInput(major+minor, "candidate 0.1.0 0.1.1 0.2.0 0.2.1 1.0.0 1.0.1 1.1.0"),
			want: `olm.package p default candidate-v1.1
olm.channel candidate-v0:
  0.1.0
  0.1.1 skips 0.1.0
  0.2.0
  0.2.1 replaces 0.1.1 skips 0.1.0,0.2.0
olm.channel candidate-v0.1:
  0.1.0
  0.1.1 skips 0.1.0
olm.channel candidate-v0.2:
  0.2.0
  0.2.1 replaces 0.1.1 skips 0.1.0,0.2.0
olm.channel candidate-v1:
  1.0.0
  1.0.1 skips 1.0.0
  1.1.0 replaces 1.0.1 skips 1.0.0
olm.channel candidate-v1.0:
  1.0.0
  1.0.1 skips 1.0.0
olm.channel candidate-v1.1:
  1.1.0 replaces 1.0.1 skips 1.0.0`,
		},
		"the newest minor channel, though major is preferred": {
			input: newSemverInput(major+minor+"defaultChannelTypePreference: major\n", "candidate 1.0.0 1.0.1 1.1.0"),
			want: `olm.package p default candidate-v1.1
olm.channel candidate-v1:
  1.0.0
  1.0.1 skips 1.0.0
  1.1.0 replaces 1.0.1 skips 1.0.0
olm.channel candidate-v1.0:
  1.0.0
  1.0.1 skips 1.0.0
olm.channel candidate-v1.1:
  1.1.0 replaces 1.0.1 skips 1.0.0`,
		},
		"the archetype with the highest stability, not the newest version": {
			input: newSemverInput(minor, "stable 1.0.0", "candidate 2.0.0"),
			want:  "olm.package p default stable-v1.0\nolm.channel candidate-v2.0:\n  2.0.0\nolm.channel stable-v1.0:\n  1.0.0",
		},
		"keys in any case, as JSON": {
			input: `{"Schema":"olm.semver","GENERATEMAJORCHANNELS":true,"Stable":{"Bundles":[{"IMAGE":"a:1.0.0"}]}}`,
			want:  "olm.package p default stable-v1\nolm.channel stable-v1:\n  1.0.0",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			blobs, err := template.Render(context.Background(), template.Semver, []byte(c.input), registry{})
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(shorten.Replace(summarizeBlobs(t, blobs)), "\nolm.bundle ")
			if got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			if err := fbc.Validate(yieldMetas(blobs)); err != nil {
				t.Errorf("the catalog is not valid: %v", err)
			}
		})
	}
}

func yieldMetas(blobs []fbc.Meta) func(func(fbc.Meta, error) bool) {
	return func(yield func(fbc.Meta, error) bool) {
		for _, m := range blobs {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// The template has eleven bundles in three archetypes, some in several of them.
func TestSemverOfElevenBundles(t *testing.T) {
	lists := []string{
		"candidate 0.1.0 0.1.1 0.1.2 0.1.3 0.2.0 0.2.1 0.2.2 0.3.0 1.0.0 1.0.1 1.1.0",
		"fast 0.2.1 0.2.2 0.3.0 1.0.1 1.1.0", "stable 1.0.1",
	}
	for preference, byDefault := range map[string]string{"major": "stable-v1", "minor": "stable-v1.0"} {
		t.Run(preference, func(t *testing.T) {
			input := newSemverInput(major+minor+"defaultChannelTypePreference: "+preference+"\n", lists...)
			blobs, err := template.Render(context.Background(), template.Semver, []byte(input), registry{})
			if err != nil {
				t.Fatal(err)
			}

			got := summarizeBlobs(t, blobs)
			if want := "olm.package p default " + byDefault + "\n"; !strings.HasPrefix(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if count := strings.Count(got, "olm.bundle "); count != 11 {
				t.Errorf("got %d bundles, want 11", count)
			}
			if err := fbc.Validate(yieldMetas(blobs)); err != nil {
				t.Errorf("the catalog is not valid: %v", err)
			}

			_, rest, _ := strings.Cut(got, "\n")
			golden.Check(t, "semver.txt", []byte(rest+"\n"))
		})
	}
}

func TestSemverRefuses(t *testing.T) {
	unusual := registry{
		"none":    nil,
		"two":     {{Blob: bundleBlob("p", "b", `"1.0.0"`, "two")}, {Blob: bundleBlob("p", "c", `"1.0.0"`, "two")}},
		"version": {{Blob: bundleBlob("p", "b", `"1"`, "version")}},
		"number":  {{Blob: bundleBlob("p", "b", `1`, "number")}},
		"stated":  {{Blob: bundleBlob("p", "b", `"1.0.0"`, "stated", `{"type":"olm.package","value":{}}`)}},
		"foreign": {{Blob: parseBlob(`{"schema":"olm.channel","package":"p","name":"c"}`)}},
	}

	stable := func(images ...string) string {
		var text strings.Builder
		text.WriteString("schema: olm.semver\nstable:\n  bundles:\n")
		for _, image := range images {
			fmt.Fprintf(&text, "  - image: %q\n", image)
		}
		return text.String()
	}

	cases := map[string]struct{ input, want string }{
		"an unknown field":          {"schema: olm.semver\nstabel: {}\n", `render: unable to read file: error unmarshaling JSON: while decoding JSON: json: unknown field "stabel"`},
		"a key twice":               {"schema: olm.semver\nstable: {}\nstable: {}\n", "render: unable to read file: error converting YAML to JSON: yaml: unmarshal errors:\n  line 3: key \"stable\" already set in map"},
		"another schema":            {"schema: olm.template.basic\n", `render: unable to read file: readFile: input file has unknown schema, should be "olm.semver"`},
		"nothing":                   {"", `render: unable to read file: readFile: input file has unknown schema, should be "olm.semver"`},
		"prefer minor, make major":  {"schema: olm.semver\ngenerateMajorChannels: true\ndefaultChannelTypePreference: minor\n", `render: unable to read file: schema attribute mismatch: DefaultChannelTypePreference set to 'minor' doesn't make sense if not generating minor-version channels`},
		"prefer major, make minor":  {"schema: olm.semver\ndefaultChannelTypePreference: major\n", `render: unable to read file: schema attribute mismatch: DefaultChannelTypePreference set to 'major' doesn't make sense if not generating major-version channels`},
		"prefer something else":     {"schema: olm.semver\ndefaultChannelTypePreference: patch\n", "render: unable to read file: unknown DefaultChannelTypePreference: \"patch\"\nValid values are \"major\" and \"minor\""},
		"too many nodes":            {"schema: olm.semver\nx: [" + longList + "]", `render: unable to read file: has a YAML document with more than 500000 lines and list items…`},
		"no bundles":                {"schema: olm.semver\n", `render: no bundles specified or no bundles could be rendered`},
		"no image":                  {stable("missing"), `pulling missing: no such image`},
		"an image without a bundle": {stable("none"), `bundle reference "none" resulted in 0 bundles, expected 1`},
		"an image with two":         {stable("two"), `bundle reference "two" resulted in 2 bundles, expected 1`},
		"no bundle":                 {stable("foreign"), `bundle reference "foreign": …`},
		"no version":                {stable("version"), `render: unable to post-process bundle info: bundle "b" has invalid version "1": No Major.Minor.Patch elements found`},
		"a number":                  {stable("number"), `render: unable to post-process bundle info: parse properties for bundle "b": parse property[0] of type "olm.package": json: cannot unmarshal number…`},
		"two versions":              {stable("stated"), `render: unable to post-process bundle info: bundle "b" has multiple "olm.package" properties, expected exactly 1`},
		"two packages":              {stable("a:1.0.0", "q/a:1.1.0"), `render: unable to post-process bundle info: bundle "q" does not belong to this package: "p"`},
		"a bundle twice":            {stable("a:1.0.0", "a:1.0.0"), `render: unable to post-process bundle info: duplicate bundle name "a.v1.0.0"`},
		"builds of a version":       {stable("a:1.0.0+b", "a:1.0.0+a", "a:2.0.0"), `render: unable to post-process bundle info: encountered bundle versions which differ only by build metadata, which cannot be ordered: bundle version "1.0.0+a" cannot be compared to "1.0.0+b"`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template.Render(context.Background(), template.Semver, []byte(c.input), unusual)
			checkError(t, err, c.want)
		})
	}
}

// A bundle of several archetypes is in the catalog once.
func TestSemverBundlesOnce(t *testing.T) {
	blobs, err := template.Render(context.Background(), template.Semver, []byte(newSemverInput("", "candidate 1.1.0 1.0.0", "stable 1.0.0")), registry{})
	if err != nil {
		t.Fatal(err)
	}

	const want = "olm.bundle a.v1.0.0 a:1.0.0\nolm.bundle a.v1.1.0 a:1.1.0"
	if got := summarizeBlobs(t, blobs); !strings.HasSuffix(got, want) || strings.Count(got, "olm.bundle ") != 2 {
		t.Errorf("got:\n%s\nwant at the end:\n%s", got, want)
	}
}

func TestSemverDescribesThePackage(t *testing.T) {
	data := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	csv := fmt.Sprintf(`{"kind":"ClusterServiceVersion","spec":{"description":"what it does","icon":[{"base64data":%q,"mediatype":"image/png"},{"base64data":%q,"mediatype":"image/svg+xml"}]}}`, data("first"), data("second"))
	first := &fbc.Icon{Data: []byte("first"), MediaType: "image/png"}
	cases := map[string]struct {
		bundle      template.Bundle
		description string
		icon        *fbc.Icon
	}{
		"separate from the bundle": {template.Bundle{CSV: []byte(csv), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "what it does", first},
		"among its objects":        {template.Bundle{Blob: bundleBlob("p", "new", `"1.1.0"`, "new", bundleObjectProperty(`{"kind":"Service"}`), bundleObjectProperty("not: JSON"), bundleObjectProperty(csv))}, "what it does", first},
		"an icon in lines":         {template.Bundle{CSV: []byte(strings.Replace(csv, data("first"), data("first")[:4]+`\n  `+data("first")[4:], 1)), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "what it does", first},
		"no icon":                  {template.Bundle{CSV: []byte(`{"spec":{"description":"d"}}`), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "d", nil},
		"a broken icon":            {template.Bundle{CSV: []byte(`{"spec":{"description":"d","icon":[{"base64data":"%"}]}}`), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "d", nil},
		"a half icon":              {template.Bundle{CSV: []byte(`{"spec":{"description":"d","icon":[{"base64data":"aGkh%"}]}}`), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "d", nil},
		"an empty icon":            {template.Bundle{CSV: []byte(`{"spec":{"description":"d","icon":[{"base64data":" "}]}}`), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "d", nil},
		"no CSV":                   {template.Bundle{Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "", nil},
		"a broken CSV":             {template.Bundle{CSV: []byte(`{`), Blob: bundleBlob("p", "new", `"1.1.0"`, "new")}, "", nil},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			input := "schema: olm.semver\ngenerateMajorChannels: true\nstable: {bundles: [{image: new}, {image: old}]}\n"
			old := template.Bundle{CSV: []byte(`{"spec":{"description":"old"}}`), Blob: bundleBlob("p", "old", `"1.0.0"`, "old")}
			blobs, err := template.Render(context.Background(), template.Semver, []byte(input), registry{"new": {c.bundle}, "old": {old}})
			if err != nil {
				t.Fatal(err)
			}

			p, err := fbc.DecodePackage(blobs[0])
			if err != nil {
				t.Fatal(err)
			}
			if p.Description != c.description || (p.Icon == nil) != (c.icon == nil) ||
				p.Icon != nil && (p.Icon.MediaType != c.icon.MediaType || !slices.Equal(p.Icon.Data, c.icon.Data)) {
				t.Errorf("got %q and %+v, want %q and %+v", p.Description, p.Icon, c.description, c.icon)
			}
		})
	}
}
