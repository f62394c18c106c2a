package indexdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadGraph(t *testing.T) {
	cases := map[string]struct {
		head    string
		entries []storedEntry
		want    channelGraph
	}{
		"nothing": {head: "h", want: channelGraph{head: "h", edges: map[string]updateEdges{}}},
		"the head is replaced": {
			head:    "b",
			entries: []storedEntry{{1, "a", 2, "b"}, {2, "b", 3, "c"}, {3, "c", 0, ""}},
			want:    channelGraph{head: "b", chain: []string{"b", "c"}, edges: map[string]updateEdges{"a": {replaces: "b"}, "b": {replaces: "c"}, "c": {}}},
		},
		"the head is missing": {
			head:    "x",
			entries: []storedEntry{{1, "a", 2, "b"}, {2, "b", 0, ""}},
			want:    channelGraph{head: "a", chain: []string{"a", "b"}, edges: map[string]updateEdges{"a": {replaces: "b"}, "b": {}}},
		},
		"skips, twice and of a replaced bundle": {
			head:    "a",
			entries: []storedEntry{{1, "a", 5, "b"}, {2, "s", 0, ""}, {3, "a", 2, "s"}, {4, "a", 2, "s"}, {5, "b", 0, ""}, {6, "a", 5, "b"}},
			want:    channelGraph{head: "a", chain: []string{"a", "b"}, edges: map[string]updateEdges{"a": {replaces: "b", skips: []string{"s"}}, "b": {}, "s": {}}},
		},
		"a head that only skips": {
			head:    "a",
			entries: []storedEntry{{1, "a", 0, ""}, {2, "s", 0, ""}, {3, "a", 2, "s"}},
			want:    channelGraph{head: "a", chain: []string{"a"}, edges: map[string]updateEdges{"a": {skips: []string{"s"}}, "s": {}}},
		},
		"a bundle that is skipped before it is replaced": {
			head:    "a",
			entries: []storedEntry{{1, "a", 4, "b"}, {2, "b", 0, ""}, {3, "a", 2, "b"}, {4, "b", 5, "c"}, {5, "c", 0, ""}},
			want:    channelGraph{head: "a", chain: []string{"a", "b", "c"}, edges: map[string]updateEdges{"a": {replaces: "b"}, "b": {replaces: "c"}, "c": {}}},
		},
		"edges outside of the chain": {
			head:    "a",
			entries: []storedEntry{{1, "a", 0, ""}, {2, "b", 4, "c"}, {3, "b", 5, "d"}, {4, "c", 0, ""}, {5, "d", 0, ""}},
			want: channelGraph{head: "a", chain: []string{"a"}, edges: map[string]updateEdges{
				"a": {}, "b": {replaces: "c", skips: []string{"d"}}, "c": {}, "d": {},
			}},
		},
		"a row of another channel": {
			head:    "a",
			entries: []storedEntry{{1, "a", 9, "z"}},
			want:    channelGraph{head: "a", chain: []string{"a"}, edges: map[string]updateEdges{"a": {replaces: "z"}}},
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, buildChannelGraph(c.head, c.entries), cmp.AllowUnexported(channelGraph{}, updateEdges{})); diff != "" {
				t.Errorf("graph (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	graph := channelGraph{edges: map[string]updateEdges{"a": {replaces: "b", skips: []string{"d"}}, "b": {replaces: "c"}, "c": {skips: []string{"b", "e"}}, "d": {}}}
	for name, want := range map[string]map[string]bool{
		"a": {"b": true, "c": true, "d": true, "e": true},
		"b": {"c": true, "e": true}, // not itself, although another bundle skips it
		"d": {},
		"x": {},
	} {
		if diff := cmp.Diff(want, graph.bundlesBelow(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
