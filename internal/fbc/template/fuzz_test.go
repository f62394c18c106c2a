package template_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// FuzzRender searches for templates that break a type, and for invalid catalogs of semver
// templates.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		newSemverInput(major+minor, "candidate 0.1.0 0.1.1 1.0.0", "stable 0.1.1"), newSubstitutesInput([]string{plainChannel}, "a.v1.0.0 r1", "p-v1.0.0-1 r2"),
		"schema: olm.template.basic\nentries:\n- schema: olm.bundle\n  image: a:1.0.0\n- schema: olm.channel\n  entries: []\n", "schema: olm.semver\ndefaultChannelTypePreference: x\n",
		`{"schema":"olm.template.basic","entries":[{"schema":"a"},null,7]}`, "a: &a [*a]\n", "schema: olm.semver\nstable: {bundles: [{image: a:1.0.0-b}, {image: a:1.0.0-a.1}, {image: 'a:1.0.0+x'}]}\n",
		"schema: olm.semver\nstable: {bundles: [{image: ':1.0.0'}]}\n",
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, input []byte) {
		_, _ = template.Detect(input)
		for _, typ := range template.Types() {
			blobs, err := template.Render(context.Background(), typ, input, newRebuiltRegistry())
			if err != nil {
				if err.Error() == "" {
					t.Error("got an error without a message")
				}
				continue
			}
			if typ == template.Basic {
				continue
			}
			// Two images may have the same bundle, which is invalid in any template.
			if err := fbc.Validate(yieldMetas(blobs)); err != nil && !hasInvalidNames(blobs) && !strings.Contains(err.Error(), "duplicate") {
				t.Errorf("type %s: got an invalid catalog: %v", typ, err)
			}
		}
	})
}

// hasInvalidNames reports whether the package or a bundle has a name, an image or a version that
// is invalid in any template.
func hasInvalidNames(blobs []fbc.Meta) bool {
	for _, m := range blobs {
		b, err := fbc.DecodeBundle(m)
		if m.Schema == fbc.SchemaPackage && strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz") != "" {
			return true
		}
		if err == nil && (!plainName.MatchString(b.Package+b.Image) || b.Image != "" && fbc.CheckPullSpec(b.Image) != nil) {
			return true
		}
	}
	return false
}

// FuzzConvert searches for catalogs that break the conversion, and for templates that cannot be
// read back.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{catalog, `{"schema":"olm.bundle","image":"a"}{"b":[1,"ü"]}`, "a: b\n---\nc: 1e3\n", "---\n---\n", "null", "{a: b}\n---\n{c: d}\n"} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, input []byte) {
		for _, to := range []template.Type{template.Basic, template.Substitutes} {
			converted, err := template.Convert(to, input)
			if err != nil {
				continue
			}
			for _, text := range [][]byte{converted.JSON(), converted.YAML()} {
				if got, err := template.Detect(text); err != nil || got != to {
					t.Errorf("%q: got type %q (%v), want %q", text, got, err, to)
				}
			}
		}
	})
}

var plainName = regexp.MustCompile(`^[a-z0-9.:]+$`)
