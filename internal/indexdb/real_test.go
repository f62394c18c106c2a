package indexdb

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// realBundles loads real bundles, with the references that their images could have.
func realBundles(t testing.TB) (map[string]*bundle.Bundle, []Bundle) {
	t.Helper()
	folders := checkout.RealBundles(t)
	loaded := map[string]*bundle.Bundle{}
	var added []Bundle
	for _, folder := range folders {
		b, err := bundle.Load(os.DirFS(folder))
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}

		a, err := FromBundle(b, "registry.example/"+b.Package+":"+strings.ReplaceAll(b.Version.String(), "+", "-"))
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}

		loaded[b.Name()] = b
		added = append(added, a)
	}

	return loaded, added
}

// TestRealBundles checks that real bundles, added by their versions, are read unchanged.
func TestRealBundles(t *testing.T) {
	loaded, added := realBundles(t)
	d := newFixture(t)
	if err := d.editIndex(func(e *Editor) error {
		return e.Add(context.Background(), added, AddOptions{Mode: ModeSemver, EnableAlpha: true})
	}); err != nil {
		t.Fatal(err)
	}

	d.checkIntegrity()
	d.validateCatalog()
	metas, err := d.readMetas()
	if err != nil {
		t.Fatal(err)
	}

	heads := d.queryRows(`SELECT head_operatorbundle_name FROM channel`)
	seen := 0
	var last fbc.Meta
	for _, meta := range metas {
		if last.PackageName() > meta.PackageName() || last.PackageName() == meta.PackageName() && last.Schema == meta.Schema && last.Name >= meta.Name {
			t.Errorf("got %s after %s, want them in order", meta, last)
		}

		last = meta
		if meta.Schema != fbc.SchemaBundle {
			continue
		}

		seen++
		got, err := fbc.DecodeBundle(meta)
		if err != nil {
			t.Fatal(err)
		}

		source := loaded[meta.Name]
		want, err := source.FBC(got.Image, bundle.WithObjects)
		if err != nil {
			t.Fatal(err)
		}

		compareReal(t, got, &want, slices.Contains(heads, meta.Name))
	}

	if seen != len(loaded) {
		t.Errorf("got %d bundles, want %d", seen, len(loaded))
	}
}

// compareReal compares a bundle of an index with its source. For a bundle that is not a
// head, the index has the images without their names, and no manifests.
func compareReal(t *testing.T, got, want *fbc.Bundle, head bool) {
	t.Helper()
	properties := func(b *fbc.Bundle) []string {
		var list []string
		for _, p := range b.Properties {
			if head || b == got || p.Type != fbc.PropertyBundleObject {
				list = append(list, p.Type+" "+canonicalJSON(t, p.Value))
			}
		}
		slices.Sort(list)
		return list
	}

	images := func(b *fbc.Bundle) []string {
		var list []string
		for _, image := range b.RelatedImages {
			if image.Image == b.Image {
				continue
			}
			if !head {
				image.Name = ""
			}
			list = append(list, image.Image+" "+image.Name)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	if diff := cmp.Diff(properties(want), properties(got)); diff != "" {
		t.Errorf("%s: properties (-want +got):\n%s", got.Name, diff)
	}
	if diff := cmp.Diff(images(want), images(got)); diff != "" {
		t.Errorf("%s: images (-want +got):\n%s", got.Name, diff)
	}
}

func canonicalJSON(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}

	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// TestRealBundlesByReplaces adds real packages in replaces mode. Packages with missing bundles
// are rejected with a warning.
func TestRealBundlesByReplaces(t *testing.T) {
	_, added := realBundles(t)
	d := newFixture(t)
	if err := d.editIndex(func(e *Editor) error {
		return e.Add(context.Background(), added, AddOptions{EnableAlpha: true, Permissive: true})
	}); err != nil {
		t.Fatal(err)
	}

	d.checkIntegrity()
	d.validateCatalog()
	packages := map[string]bool{}
	for _, b := range added {
		packages[b.Package] = true
	}

	present := d.queryRows(`SELECT name FROM package`)
	if len(present) == 0 {
		t.Error("got no added package, want at least one")
	}
	if len(present)+len(d.warnings) != len(packages) {
		t.Errorf("got %[2]d added packages and warnings %[3]q, want %[1]d together", len(packages), len(present), d.warnings)
	}

	t.Logf("added %q, warnings %q", present, d.warnings)
	// All added packages can be removed.
	err := d.editIndex(func(e *Editor) error { return e.PrunePackages(context.Background(), present[:1], false) })
	if err != nil {
		t.Fatal(err)
	}

	d.checkIntegrity()
	if got := d.queryRows(`SELECT name FROM package`); len(got) != 1 || got[0] != present[0] {
		t.Errorf("got remaining packages %q, want none", got)
	}

	for _, table := range []string{"properties", "dependencies", "related_image", "api_provider", "api_requirer"} {
		if got := d.queryFirst(`SELECT DISTINCT operatorbundle_name FROM ` + table + ` WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle)`); got != "" {
			t.Errorf("table %s: got rows of %s, want none", table, got)
		}
	}
}
