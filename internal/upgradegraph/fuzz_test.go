package upgradegraph_test

import (
	"io"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// FuzzGraph builds a small graph from any names and any skipRange. It checks that nothing panics,
// that no edge is a loop, and that a path has the right ends and at most one step per bundle. A
// valid skipRange equals that of the library.
func FuzzGraph(f *testing.F) {
	f.Add(">=1.0.0 <2.0.0", "e.v1.0.0", "e.v0.9.0", "1.5.0")
	f.Add("<1.0.0 || || >2.0.0", "", "e.v2.0.0", "3.0.0")
	f.Add("1.x || !2.x.x", "e.v2.0.0", "e.v3.0.0", "1.0.0-rc.1+b")
	f.Add(">=1.0.0-fix", "\x00", "\"", "0.0.0")
	f.Fuzz(func(t *testing.T, skipRange, replaces, skips, installed string) {
		g := upgradegraph.New("example", []fbc.Channel{
			channel("a",
				fbc.ChannelEntry{Name: "e.v1.0.0", Replaces: replaces},
				fbc.ChannelEntry{Name: "e.v2.0.0", Skips: []string{skips}, SkipRange: skipRange},
				fbc.ChannelEntry{Name: replaces, Replaces: skips},
			),
			channel(skips, fbc.ChannelEntry{Name: "e.v3.0.0", Replaces: "e.v2.0.0", SkipRange: skipRange}),
		}, versionFromName)

		from := newNode("e.v1.0.0")
		if v, err := semver.Parse(installed); err == nil {
			from = upgradegraph.Node{Name: "installed", Version: &v}
		}

		reached := map[string]bool{}
		for _, e := range g.Successors(from) {
			if e.From != from.Name || e.To == e.From || len(e.Channels) == 0 {
				t.Errorf("got edge %+v from %q, want none", e, from.Name)
			}
			reached[e.To] = true
		}

		if g.Err() == nil && skipRange != "" && from.Version != nil {
			r, err := semver.ParseRange(skipRange)
			if err != nil {
				t.Fatalf("%q was accepted, but the library reports %v", skipRange, err)
			}
			if r(*from.Version) && !reached["e.v2.0.0"] {
				t.Errorf("got no edge from %[2]v, want one because %[1]q holds it", skipRange, from.Version)
			}
		}

		if path, ok := g.ShortestPath(from, "e.v3.0.0"); ok {
			if len(path) == 0 || len(path) > 4 || path[0].From != from.Name || path[len(path)-1].To != "e.v3.0.0" {
				t.Errorf("got path %+v, want one from the node to e.v3.0.0", path)
			}
		}

		g.Heads("a")
		if err := upgradegraph.WriteMermaid(io.Discard, upgradegraph.Drawing{Graph: g}); err != nil {
			t.Error(err)
		}
	})
}
