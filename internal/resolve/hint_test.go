package resolve_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// TestHints compares the message and the hints of each error with the golden file.
func TestHints(t *testing.T) {
	many := func(count int) []fbc.Bundle {
		var out []fbc.Bundle
		for i := range count {
			out = append(out, bundle(fmt.Sprintf("e.v1.%d.0", i)))
		}
		return out
	}

	graph := catalog("graph", 0, withBundles(bundles("e.v1.0.0", "e.v1.1.0", "e.v1.2.0", "e.v1.3.0", "e.v9.0.0")...),
		withChainChannel("stable", "e.v1.0.0", "e.v1.1.0", "e.v1.2.0", "e.v1.3.0"), withFlatChannel("island", "e.v9.0.0"))
	cases := []struct {
		name     string
		req      resolve.Request
		catalogs []resolve.Catalog
	}{
		{"no catalog", resolve.Request{}, nil},
		{"unknown package", resolve.Request{}, []resolve.Catalog{{Name: "b"}, {Name: "a", Content: &fbc.Content{}}}},
		{"no bundle", resolve.Request{}, []resolve.Catalog{catalog("a", 0)}},
		{"no channel", resolve.Request{Channels: []string{"stable"}}, []resolve.Catalog{catalog("a", 0, withBundles(bundle("e.v1.0.0")))}},
		{"unknown channel", resolve.Request{Channels: []string{"stabel"}}, []resolve.Catalog{graph, {Name: "empty"}}},
		{"unknown version", resolve.Request{Version: "2.x"}, []resolve.Catalog{graph, catalog("a", 0, withBundles(bundleOf("b", "1.0.0", "7")))}},
		{"version in another channel", resolve.Request{Version: "9.x", Channels: []string{"stable"}}, []resolve.Catalog{graph}},
		{"many versions", resolve.Request{Version: "2.x"}, []resolve.Catalog{catalog("a", 0, withBundles(many(25)...))}},
		{"pre-releases only", resolve.Request{Version: "4.17.x"}, []resolve.Catalog{catalog("a", 0, withBundles(bundles("e.v4.17.0-202412170235", "e.v4.17.0-202409101036")...))}},
		{"several steps", resolve.Request{Version: "1.3.0", Installed: installed("e.v1.0.0")}, []resolve.Catalog{graph}},
		{"no way there", resolve.Request{Version: "9.0.0", Installed: installed("e.v1.0.0")}, []resolve.Catalog{graph}},
		{"a step back", resolve.Request{Version: "<1.2.0", Installed: installed("e.v1.3.0")}, []resolve.Catalog{graph}},
		{"a way that leads down", resolve.Request{Version: "3.0.0", Installed: installed("e.v2.0.0")}, []resolve.Catalog{catalog("a", 0,
			withBundles(bundles("e.v1.0.0", "e.v3.0.0")...),
			withChannel("stable", fbc.ChannelEntry{Name: "e.v1.0.0", SkipRange: "<3.0.0"}, fbc.ChannelEntry{Name: "e.v3.0.0", Replaces: "e.v1.0.0"}))}},
		{"unreadable installed version", resolve.Request{Installed: &resolve.Installed{Name: "x", Version: "one"}}, []resolve.Catalog{graph}},
		{"faulty catalog", resolve.Request{Version: "3.0.0", Installed: installed("e.v1.0.0")}, []resolve.Catalog{catalog("a", 0,
			withBundles(bundle("e.v3.0.0"), bundleOf("short", "1.0", ""), bundleOf("padded", "1.0.0", "01"), bundleOf("long", "1.0.0", strings.Repeat("1", 21)),
				bundleOf("longer", strings.Repeat("1", 300), ""), fbc.Bundle{Name: "bare"},
				fbc.Bundle{Name: "list", Properties: []fbc.Property{{Type: fbc.PropertyPackage, Value: []byte(`[]`)}}}),
			withChannel("stable", fbc.ChannelEntry{Name: "e.v3.0.0", SkipRange: ">=1.0"}))}},
		{"a catalog full of faults", resolve.Request{}, []resolve.Catalog{catalog("a", 0, withBundles(make([]fbc.Bundle, 30)...))}},
		{"a version that only other channels have, and no edge", resolve.Request{Version: "9.x", Channels: []string{"stable"}, Installed: installed("e.v1.0.0")}, []resolve.Catalog{graph}},
		{"a channel that has nothing of it", resolve.Request{Channels: []string{"island"}, Installed: installed("e.v1.0.0")}, []resolve.Catalog{graph}},
		{"ambiguous", resolve.Request{Version: ">=1.2"}, []resolve.Catalog{graph, catalog("a", 0, withBundles(bundle("e.v1.2.9"), bundle("nonsense")))}},
		{"not a range", resolve.Request{Version: "newest"}, nil},
		{"the word or", resolve.Request{Version: "<1.0 OR >2.0"}, nil},
	}

	var out strings.Builder
	for _, tc := range cases {
		tc.req.Package = pkg
		_, err := resolve.Resolve(tc.req, tc.catalogs)
		if err == nil {
			t.Errorf("%s: got no error, want one", tc.name)
			continue
		}

		fmt.Fprintf(&out, "# %s\n%v\n", tc.name, err)
		for _, hint := range resolve.Hints(err) {
			fmt.Fprintf(&out, "  - %s\n", hint)
		}
	}

	golden(t, "hints.txt", out.String())
}

func TestErrorsCarryWhatTheyAreAbout(t *testing.T) {
	req := resolve.Request{Package: pkg, Version: "1.x", Channels: []string{"stable"}, Installed: installed("e.v0.1.0")}
	_, err := resolve.Resolve(req, nil)
	var notFound *resolve.NotFoundError
	if !errors.As(fmt.Errorf("resolve: %w", err), &notFound) {
		t.Fatalf("got error %v, want a NotFoundError", err)
	}
	if notFound.Package != pkg || notFound.Version != "1.x" || len(notFound.Channels) != 1 || notFound.Installed.Name != "e.v0.1.0" {
		t.Errorf("got %+v", notFound)
	}

	one := withBundles(bundle("e.v1.0.0"))
	_, err = resolve.Resolve(resolve.Request{Package: pkg}, []resolve.Catalog{catalog("b", 7, one), catalog("a", 7, one), catalog("c", 6, one)})
	var ambiguous *resolve.AmbiguousError
	if !errors.As(err, &ambiguous) {
		t.Fatalf("got error %v, want an AmbiguousError", err)
	}
	if ambiguous.Priority != 7 || strings.Join(ambiguous.Catalogs, " ") != "a b" {
		t.Errorf("got %+v", ambiguous)
	}
	if hints := resolve.Hints(errors.New("other")); hints != nil {
		t.Errorf("got the hints %q for another error, want none", hints)
	}
}
