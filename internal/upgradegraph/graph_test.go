package upgradegraph_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

func channel(name string, entries ...fbc.ChannelEntry) fbc.Channel {
	return fbc.Channel{Schema: fbc.SchemaChannel, Package: "example", Name: name, Entries: entries}
}

// versionFromName parses the version after ".v", as in most bundle names.
func versionFromName(bundle string) (semver.Version, bool) {
	_, text, _ := strings.Cut(bundle, ".v")
	v, err := semver.Parse(text)
	return v, err == nil
}

func newNode(bundle string) upgradegraph.Node {
	n := upgradegraph.Node{Name: bundle}
	if v, ok := versionFromName(bundle); ok {
		n.Version = &v
	}
	return n
}

// formatEdges formats edges as "kind:target@channel+channel".
func formatEdges(edges []upgradegraph.Edge) []string {
	var out []string
	for _, e := range edges {
		out = append(out, fmt.Sprintf("%s:%s@%s", e.Kind, e.To, strings.Join(e.Channels, "+")))
	}
	return out
}

func TestSuccessors(t *testing.T) {
	cases := map[string]struct {
		channels []fbc.Channel
		from     string
		want     []string
	}{
		"an entry that replaces the bundle": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v1.0.0"}, fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"})},
			from:     "e.v1.0.0",
			want:     []string{"replaces:e.v1.1.0@a"},
		},
		"an entry that skips the bundle": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v1.2.0", Replaces: "e.v1.0.0", Skips: []string{"e.v1.1.0", "e.v1.1.1"}})},
			from:     "e.v1.1.1",
			want:     []string{"skips:e.v1.2.0@a"},
		},
		"an entry whose skipRange holds the version, though the bundle is not in the catalog": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"})},
			from:     "e.v1.5.0",
			want:     []string{"skipRange:e.v2.0.0@a"},
		},
		"a skipRange that does not hold the version": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"})},
			from:     "e.v0.9.0",
		},
		"a pre-release in a skipRange, in the order of the library": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"})},
			from:     "e.v2.0.0-rc.1",
			want:     []string{"skipRange:e.v2.0.0@a"},
		},
		"an alternative of a skipRange": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v3.0.0", SkipRange: "<1.0.0 || >=2.0.0 <3.0.0"})},
			from:     "e.v2.5.0",
			want:     []string{"skipRange:e.v3.0.0@a"},
		},
		"highest version first, not nearest to the head": {
			channels: []fbc.Channel{channel("a",
				fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
				fbc.ChannelEntry{Name: "e.v1.10.0", Skips: []string{"e.v1.0.0"}},
				fbc.ChannelEntry{Name: "e.v1.9.0", SkipRange: "<1.9.0", Replaces: "e.v1.1.0"},
			)},
			from: "e.v1.0.0",
			want: []string{"skips:e.v1.10.0@a", "skipRange:e.v1.9.0@a", "replaces:e.v1.1.0@a"},
		},
		"no chain of replaces is needed": {
			channels: []fbc.Channel{channel("a",
				fbc.ChannelEntry{Name: "example.v3.0.0", Skips: []string{"example.v2.0.0"}},
				fbc.ChannelEntry{Name: "example.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"},
			)},
			from: "example.v1.0.0",
			want: []string{"skipRange:example.v2.0.0@a"},
		},
		"the same edge in several channels is one edge": {
			channels: []fbc.Channel{
				channel("a", fbc.ChannelEntry{Name: "e.v2.0.0", Replaces: "e.v1.0.0"}),
				channel("b", fbc.ChannelEntry{Name: "e.v2.0.0", Replaces: "e.v1.0.0"}),
				channel("c", fbc.ChannelEntry{Name: "e.v2.0.0"}),
			},
			from: "e.v1.0.0",
			want: []string{"replaces:e.v2.0.0@a+b"},
		},
		"no bundle is its own successor": {
			channels: []fbc.Channel{channel("a", fbc.ChannelEntry{Name: "e.v1.0.0", Replaces: "e.v1.0.0", Skips: []string{"e.v1.0.0", ""}, SkipRange: "<=1.0.0"})},
			from:     "e.v1.0.0",
		},
		"a target that is not in the catalog comes last": {
			channels: []fbc.Channel{channel("a",
				fbc.ChannelEntry{Name: "absent", Replaces: "e.v1.0.0"},
				fbc.ChannelEntry{Name: "e.v1.1.0", Skips: []string{"e.v1.0.0"}},
				fbc.ChannelEntry{Name: "also-absent", Skips: []string{"e.v1.0.0"}},
			)},
			from: "e.v1.0.0",
			want: []string{"skips:e.v1.1.0@a", "replaces:absent@a", "skips:also-absent@a"},
		},
		"a bundle with an unknown version has successors by name only": {
			channels: []fbc.Channel{channel("a",
				fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "nameless"},
				fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: ">=0.0.0"},
			)},
			from: "nameless",
			want: []string{"replaces:e.v1.1.0@a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := upgradegraph.New("example", tc.channels, versionFromName)
			if err := g.Err(); err != nil {
				t.Fatal(err)
			}
			edges := g.Successors(newNode(tc.from))
			if diff := cmp.Diff(tc.want, formatEdges(edges)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, e := range edges {
				if e.From != tc.from {
					t.Errorf("edge %v: got the start %q, want %q", e, e.From, tc.from)
				}
			}
		})
	}
}

func TestInvalidSkipRangeIsNamedAndCoversNothing(t *testing.T) {
	cases := map[string]string{
		"not a range":         "newest",
		"a partial version":   ">=1.0 <2.0",
		"a leading v":         ">=v1.0.0",
		"an empty end":        "<1.0.0 ||",
		"an empty middle":     "<1.0.0 || || >2.0.0",
		"a middle of one":     "<1.0.0 || a || >2.0.0",
		"only white space":    "   ",
		"longer than allowed": strings.Repeat("<1.0.0 ", 1000),
	}

	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			g := upgradegraph.New("example", []fbc.Channel{channel("stable",
				fbc.ChannelEntry{Name: "e.v2.0.0", Replaces: "e.v1.0.0", SkipRange: text},
			)}, versionFromName)
			var bad *upgradegraph.SkipRangeError
			if !errors.As(g.Err(), &bad) {
				t.Fatalf("got error %v, want a SkipRangeError", g.Err())
			}
			if bad.Package != "example" || bad.Channel != "stable" || bad.Entry != "e.v2.0.0" || bad.SkipRange != text {
				t.Errorf("got the package %q, channel %q, entry %q and skipRange %q in the error", bad.Package, bad.Channel, bad.Entry, bad.SkipRange)
			}
			if !strings.HasPrefix(bad.Error(), `package "example", channel "stable", entry "e.v2.0.0": invalid skipRange "`) {
				t.Errorf("got the message %v", bad)
			}
			if len(bad.Error()) > 400 {
				t.Errorf("got a message of %d bytes, want at most 400", len(bad.Error()))
			}
			if diff := cmp.Diff([]string{"replaces:e.v2.0.0@stable"}, formatEdges(g.Successors(newNode("e.v1.0.0")))); diff != "" {
				t.Errorf("the entry's other edges (-want +got)\n%s", diff)
			}
		})
	}
}

func TestHeads(t *testing.T) {
	cases := map[string]struct {
		entries []fbc.ChannelEntry
		want    []string
	}{
		"the end of a replaces chain": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.2.0", Replaces: "e.v1.1.0"}, {Name: "e.v1.1.0", Replaces: "e.v1.0.0"}, {Name: "e.v1.0.0"}},
			want:    []string{"e.v1.2.0"},
		},
		"a skipped entry is not a head": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.0.0"}, {Name: "e.v1.1.0"}, {Name: "e.v1.0.1", Replaces: "e.v1.0.0", Skips: []string{"e.v1.1.0"}}},
			want:    []string{"e.v1.0.1"},
		},
		"an entry in a skipRange is still a head": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.0.0"}, {Name: "absent"}, {Name: "e.v1.1.0", SkipRange: "<1.1.0"}},
			want:    []string{"e.v1.1.0", "e.v1.0.0", "absent"},
		},
		"an edge to itself does not count": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.0.0", Replaces: "e.v1.0.0"}},
			want:    []string{"e.v1.0.0"},
		},
		"a cycle has no head": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.0.0", Replaces: "e.v1.1.0"}, {Name: "e.v1.1.0", Replaces: "e.v1.0.0"}},
		},
		"a duplicate entry is one head": {
			entries: []fbc.ChannelEntry{{Name: "e.v1.0.0"}, {Name: "e.v1.0.0"}},
			want:    []string{"e.v1.0.0"},
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := upgradegraph.New("example", []fbc.Channel{channel("other"), channel("stable", tc.entries...)}, versionFromName)
			if diff := cmp.Diff(tc.want, g.Heads("stable")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if heads := g.Heads("unknown"); heads != nil {
				t.Errorf("got heads %v of an unknown channel, want none", heads)
			}
			if diff := cmp.Diff([]string{"other", "stable"}, g.Channels()); diff != "" {
				t.Errorf("channels (-want +got)\n%s", diff)
			}
		})
	}
}

func TestShortestPath(t *testing.T) {
	chain := []fbc.ChannelEntry{
		{Name: "e.v1.0.0"},
		{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
		{Name: "e.v1.2.0", Replaces: "e.v1.1.0"},
		{Name: "e.v2.0.0", Replaces: "e.v1.2.0"},
		{Name: "lost", Replaces: "e.v2.0.0"},
		{Name: "e.v3.0.0", Replaces: "lost"},
	}

	shortcut := append([]fbc.ChannelEntry{{Name: "e.v1.3.0", SkipRange: ">=1.0.0 <1.3.0"}, {Name: "e.v2.1.0", Skips: []string{"e.v1.3.0", "e.v1.2.0"}}}, chain...)
	cases := map[string]struct {
		entries  []fbc.ChannelEntry
		from, to string
		want     []string
		none     bool
	}{
		"along the chain": {entries: chain, from: "e.v1.0.0", to: "e.v2.0.0", want: []string{"e.v1.1.0", "e.v1.2.0", "e.v2.0.0"}},
		"by a shortcut":   {entries: shortcut, from: "e.v1.0.0", to: "e.v2.1.0", want: []string{"e.v1.3.0", "e.v2.1.0"}},
		"from a bundle that is not in the catalog": {entries: shortcut, from: "e.v1.0.5", to: "e.v2.1.0", want: []string{"e.v1.3.0", "e.v2.1.0"}},
		"to itself": {entries: chain, from: "e.v1.0.0", to: "e.v1.0.0"},
		"not through a bundle that is not in the catalog": {entries: chain, from: "e.v1.0.0", to: "e.v3.0.0", none: true},
		"not to a bundle that is not in the catalog":      {entries: chain, from: "e.v1.0.0", to: "lost", none: true},
		"not backwards": {entries: chain, from: "e.v2.0.0", to: "e.v1.0.0", none: true},
		"the highest version among equally short paths": {entries: []fbc.ChannelEntry{{Name: "e.v1.1.0", Replaces: "e.v1.0.0"}, {Name: "e.v1.2.0", Skips: []string{"e.v1.0.0"}}, {Name: "e.v2.0.0", Skips: []string{"e.v1.1.0", "e.v1.2.0"}}}, from: "e.v1.0.0", to: "e.v2.0.0", want: []string{"e.v1.2.0", "e.v2.0.0"}},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := upgradegraph.New("example", []fbc.Channel{channel("stable", tc.entries...)}, versionFromName)
			path, found := g.ShortestPath(newNode(tc.from), tc.to)
			if found == tc.none {
				t.Fatalf("got found %v, path %v", found, path)
			}

			var got []string
			at := tc.from
			for _, e := range path {
				if e.From != at {
					t.Errorf("the path breaks at %q: %v", at, e)
				}
				at = e.To
				got = append(got, e.To)
			}

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWithoutVersions(t *testing.T) {
	g := upgradegraph.New("example", []fbc.Channel{channel("stable",
		fbc.ChannelEntry{Name: "b", Replaces: "a"}, fbc.ChannelEntry{Name: "c", Replaces: "b"})}, nil)
	if diff := cmp.Diff([]string{"c"}, g.Heads("stable")); diff != "" {
		t.Errorf("heads (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"replaces:b@stable"}, formatEdges(g.Successors(upgradegraph.Node{Name: "a"}))); diff != "" {
		t.Errorf("successors (-want +got)\n%s", diff)
	}
}
