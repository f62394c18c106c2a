package graphdata

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// Query selects a part of a graph.
type Query struct{ Channel, Architecture string }

// Queries returns the channels and architectures that have releases, sorted.
func (g *Graph) Queries() []Query {
	var all []Query
	for i := range g.nodes {
		for _, channel := range g.nodes[i].channels {
			all = append(all, Query{channel, g.nodes[i].architecture})
		}
	}

	slices.SortFunc(all, func(a, b Query) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Architecture, b.Architecture))
	})
	return slices.Compact(all)
}

// Releases returns the number of releases.
func (g *Graph) Releases() int { return len(g.nodes) }

// Edges returns the number of updates, including those with known issues.
func (g *Graph) Edges() int { return len(g.edges) + len(g.conditional) }

// Channel returns the graph of one channel and architecture: its releases by ascending version,
// and the updates between them. Updates with the same known issues share an entry. The graph of
// an unknown channel is empty.
func (g *Graph) Channel(q Query) *cincinnati.Graph {
	part := &cincinnati.Graph{Version: cincinnati.Version, Nodes: []cincinnati.Node{}, ConditionalEdges: []cincinnati.ConditionalEdges{}}
	place := make([]int, len(g.nodes)) // index in part, starting at 1
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.architecture != q.Architecture || !slices.Contains(n.channels, q.Channel) {
			continue
		}
		part.Nodes = append(part.Nodes, cincinnati.Node{Version: n.Version, Payload: n.Payload, Metadata: maps.Clone(n.Metadata)})
		place[i] = len(part.Nodes)
	}

	for _, e := range g.edges {
		if from, to := place[e.from], place[e.to]; from > 0 && to > 0 {
			part.Edges = append(part.Edges, cincinnati.Edge{From: from - 1, To: to - 1})
		}
	}

	entries := map[string]int{}
	for _, e := range g.conditional {
		if place[e.from] == 0 || place[e.to] == 0 {
			continue
		}

		key, _ := json.Marshal(e.risks) // strings can always be marshaled
		at, known := entries[string(key)]
		if !known {
			at = len(part.ConditionalEdges)
			entries[string(key)] = at
			part.ConditionalEdges = append(part.ConditionalEdges, cincinnati.ConditionalEdges{Risks: e.risks})
		}

		entry := &part.ConditionalEdges[at]
		entry.Edges = append(entry.Edges, cincinnati.VersionEdge{From: g.nodes[e.from].Version, To: g.nodes[e.to].Version})
	}

	return part
}
