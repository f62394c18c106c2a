package upgradegraph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

func TestCompare(t *testing.T) {
	entry := func(name, replaces string) fbc.ChannelEntry { return fbc.ChannelEntry{Name: name, Replaces: replaces} }
	graph := func(channels ...fbc.Channel) *upgradegraph.Graph {
		return upgradegraph.New("p", channels, versionFromName)
	}
	old := graph(channel("stable", entry("p.v1.0.0", ""), entry("p.v1.1.0", "p.v1.0.0")))
	for name, test := range map[string]struct {
		from, to *upgradegraph.Graph
		want     upgradegraph.Difference
	}{
		"nothing": {old, old, upgradegraph.Difference{Package: "p"}},
		"a new head": {
			old, graph(channel("stable", entry("p.v1.0.0", ""), entry("p.v1.1.0", "p.v1.0.0"), entry("p.v1.2.0", "p.v1.1.0"))),
			upgradegraph.Difference{
				Package: "p", BundlesAdded: []string{"p.v1.2.0"},
				EdgesAdded: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.1.0", To: "p.v1.2.0"}},
			},
		},
		"a head without edges": {
			old, graph(channel("stable", entry("p.v2.0.0", ""))),
			upgradegraph.Difference{
				Package: "p", BundlesAdded: []string{"p.v2.0.0"}, BundlesRemoved: []string{"p.v1.0.0", "p.v1.1.0"},
				EdgesRemoved: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
				Stranded:     []string{"p.v1.0.0", "p.v1.1.0"},
			},
		},
		"removed bundles that a skipRange covers": {
			old, graph(channel("stable", fbc.ChannelEntry{Name: "p.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"})),
			upgradegraph.Difference{
				Package: "p", BundlesAdded: []string{"p.v2.0.0"}, BundlesRemoved: []string{"p.v1.0.0", "p.v1.1.0"},
				EdgesAdded: []upgradegraph.ChannelEdge{
					{Channel: "stable", From: "p.v1.0.0", To: "p.v2.0.0"}, {Channel: "stable", From: "p.v1.1.0", To: "p.v2.0.0"}},
				EdgesRemoved: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
			},
		},
		"the head is removed": {
			old, graph(channel("stable", entry("p.v1.0.0", ""))),
			upgradegraph.Difference{
				Package: "p", BundlesRemoved: []string{"p.v1.1.0"},
				EdgesRemoved: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
				Stranded:     []string{"p.v1.1.0"},
			},
		},
		"a channel is renamed": {
			old, graph(channel("fast", entry("p.v1.0.0", ""), entry("p.v1.1.0", "p.v1.0.0"))),
			upgradegraph.Difference{
				Package: "p", ChannelsAdded: []string{"fast"}, ChannelsRemoved: []string{"stable"},
				EdgesAdded:   []upgradegraph.ChannelEdge{{Channel: "fast", From: "p.v1.0.0", To: "p.v1.1.0"}},
				EdgesRemoved: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
			},
		},
		"removed bundles without an update to a kept one": {
			graph(channel("stable", entry("p.v1.0.0", ""), entry("p.v1.1.0", "p.v1.0.0")), channel("odd", entry("p.v0.1.0", "p.v0.1.0"), entry("p.v0.2.0", "p.v0.3.0"), entry("p.v0.3.0", "p.v0.2.0"))),
			old,
			upgradegraph.Difference{
				Package: "p", ChannelsRemoved: []string{"odd"}, BundlesRemoved: []string{"p.v0.1.0", "p.v0.2.0", "p.v0.3.0"},
				EdgesRemoved: []upgradegraph.ChannelEdge{
					{Channel: "odd", From: "p.v0.3.0", To: "p.v0.2.0"}, {Channel: "odd", From: "p.v0.2.0", To: "p.v0.3.0"}},
				Stranded: []string{"p.v0.1.0", "p.v0.2.0", "p.v0.3.0"},
			},
		},
		"the package is removed": {
			old, nil,
			upgradegraph.Difference{
				Package: "p", ChannelsRemoved: []string{"stable"}, BundlesRemoved: []string{"p.v1.0.0", "p.v1.1.0"},
				EdgesRemoved: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
				Stranded:     []string{"p.v1.0.0", "p.v1.1.0"},
			},
		},
		"the package is added": {
			nil, old,
			upgradegraph.Difference{
				Package: "p", ChannelsAdded: []string{"stable"}, BundlesAdded: []string{"p.v1.0.0", "p.v1.1.0"},
				EdgesAdded: []upgradegraph.ChannelEdge{{Channel: "stable", From: "p.v1.0.0", To: "p.v1.1.0"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := upgradegraph.Compare(test.from, test.to)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("difference (-want +got):\n%s", diff)
			}
			if got.Empty() != (name == "nothing") {
				t.Errorf("got empty %v, want %v", got.Empty(), name == "nothing")
			}
		})
	}
}
