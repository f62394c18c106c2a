package template_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// registry has an image for each text of the form [package/]name:version. The image contains the
// bundle name.v<version> of the package, which is p by default. Other images have the bundles in
// the map.
type registry map[string][]template.Bundle

var errNoImage = errors.New("no such image")

func (r registry) Render(_ context.Context, image string) ([]template.Bundle, error) {
	if bundles, ok := r[image]; ok {
		return bundles, nil
	}

	name, version, ok := strings.Cut(image, ":")
	if !ok {
		return nil, fmt.Errorf("pulling %s: %w", image, errNoImage)
	}

	pkg := "p"
	if before, after, ok := strings.Cut(name, "/"); ok {
		pkg, name = before, after
	}

	return []template.Bundle{{Blob: bundleBlob(pkg, name+".v"+version, fmt.Sprintf("%q", version), image)}}, nil
}

// bundleBlob returns a bundle. The version is JSON and may be followed by further fields.
func bundleBlob(pkg, name, version, image string, properties ...string) fbc.Meta {
	properties = append([]string{fmt.Sprintf(`{"type":"olm.package","value":{"packageName":%q,"version":%s}}`, pkg, version)}, properties...)
	return parseBlob(fmt.Sprintf(`{"schema":"olm.bundle","package":%q,"name":%q,"image":%q,"properties":[%s]}`, pkg, name, image, strings.Join(properties, ",")))
}

func parseBlob(text string) fbc.Meta {
	for meta, err := range fbc.Read(strings.NewReader(text), "blob", fbc.Limits{}) {
		if err != nil {
			panic(err)
		}
		return meta
	}
	panic("no blob in " + text)
}

// summarizeBlobs formats blobs as lines for comparison.
func summarizeBlobs(t *testing.T, blobs []fbc.Meta) string {
	t.Helper()
	var lines []string
	for _, m := range blobs {
		line := m.Schema + " " + m.Name
		switch m.Schema {
		case fbc.SchemaPackage:
			p, err := fbc.DecodePackage(m)
			if err != nil {
				t.Fatal(err)
			}
			line += " default " + p.DefaultChannel
		case fbc.SchemaChannel:
			channel, err := fbc.DecodeChannel(m)
			if err != nil {
				t.Fatal(err)
			}
			entries := []string{line + ":"}
			for _, e := range channel.Entries {
				entries = append(entries, "  "+formatEdges(e))
			}
			line = strings.Join(entries, "\n")
		case fbc.SchemaBundle:
			b, err := fbc.DecodeBundle(m)
			if err != nil {
				t.Fatal(err)
			}
			line += " " + b.Image
		}
		lines = append(lines, line)
	}

	return strings.Join(lines, "\n")
}

func formatEdges(e fbc.ChannelEntry) string {
	text := e.Name
	if e.Replaces != "" {
		text += " replaces " + e.Replaces
	}
	if len(e.Skips) > 0 {
		text += " skips " + strings.Join(e.Skips, ",")
	}
	if e.SkipRange != "" {
		text += " skipRange " + e.SkipRange
	}

	return text
}

// checkError compares an error with a text. If the text ends with …, only its beginning is
// compared.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}

	if beginning, ok := strings.CutSuffix(want, "…"); ok {
		if !strings.HasPrefix(got, beginning) {
			t.Errorf("got error\n%s\nwant\n%s", got, want)
		}
		return
	}

	if got != want {
		t.Errorf("got error\n%s\nwant\n%s", got, want)
	}
}

func TestParseType(t *testing.T) {
	for _, want := range template.Types() {
		if got, err := template.ParseType(string(want)); err != nil || got != want {
			t.Errorf("%q: got %q (%v), want the same", want, got, err)
		}
	}

	_, err := template.ParseType("composite")
	checkError(t, err, `invalid template type "composite", must be one of: [basic semver substitutes]`)
	_, err = template.Render(context.Background(), "x", nil, registry{})
	checkError(t, err, `invalid template type "x", must be one of: [basic semver substitutes]`)
}

func TestDetect(t *testing.T) {
	cases := map[string]struct {
		input string
		want  template.Type
		err   string
	}{
		"yaml":               {input: "---\nschema: olm.template.basic\nentries: []\n", want: template.Basic},
		"json":               {input: `{"schema":"olm.semver"}`, want: template.Semver},
		"substitutes":        {input: "schema: olm.template.substitutes", want: template.Substitutes},
		"the first document": {input: "schema: olm.semver\n---\nschema: olm.template.basic\n", want: template.Semver},
		"no schema":          {input: "entries: []\n", err: `template input missing required 'schema' field`},
		"unknown":            {input: "schema: olm.composite\n", err: `unknown template schema: olm.composite`},
		"nothing":            {input: "", err: `decoding template input: EOF`},
		"no YAML":            {input: "a: b: c", err: `decoding template input: error converting YAML to JSON: yaml: mapping values are not allowed in this context`},
		"a list":             {input: "[]", err: `unmarshalling template schema: json: cannot unmarshal array into Go value of type struct { Schema string "json:\"schema\"" }`},
		"no text":            {input: "schema: 7", err: `unmarshalling template schema: json: cannot unmarshal number into Go struct field .schema of type string`},
		"too many nodes":     {input: "schema: [" + strings.Repeat("a,", 500_001) + "]", err: `decoding template input: has a YAML document with more than 500000 lines and list items: write it as JSON, or split it`},
		"too long":           {input: "schema: " + strings.Repeat("a", 8<<20), err: `decoding template input: has a YAML document larger than 8388608 bytes: write it as JSON, or split it`},
		"long JSON":          {input: `{"schema":"olm.semver","x":"` + strings.Repeat("a,", 5<<20) + `"}`, want: template.Semver},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := template.Detect([]byte(c.input))
			checkError(t, err, c.err)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReadInput(t *testing.T) {
	if got, err := template.ReadInput(strings.NewReader("a")); err != nil || string(got) != "a" {
		t.Errorf("got %q (%v)", got, err)
	}

	_, err := template.ReadInput(io.MultiReader(strings.NewReader("a"), failingReader{}))
	if !errors.Is(err, errNoImage) {
		t.Errorf("got error %v", err)
	}
	if got, err := template.ReadAtMost(strings.NewReader("abc"), 3); err != nil || string(got) != "abc" {
		t.Errorf("got %q (%v)", got, err)
	}

	_, err = template.ReadAtMost(strings.NewReader("abcd"), 3)
	checkError(t, err, "the template is larger than 3 bytes")
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errNoImage }

func bundleObjectProperty(manifest string) string {
	return fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(manifest)))
}

var longList = strings.Repeat("a,", 500_001)
