package graphdata

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// Query is a part of a graph.
type Query struct{ Channel, Architecture string }

// Queries are the channels and architectures that there are releases of, sorted by both.
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

// Releases counts the nodes.
func (g *Graph) Releases() int { return len(g.nodes) }

// Edges counts the updates, those with known issues among them.
func (g *Graph) Edges() int { return len(g.edges) + len(g.conditional) }

// Channel returns the graph of one channel and architecture: its releases by ascending
// version, the updates between them, and those with known issues, of which those with the
// same ones stand together. There is nothing in that of an unknown channel.
func (g *Graph) Channel(q Query) *cincinnati.Graph {
	part := &cincinnati.Graph{Version: cincinnati.Version, Nodes: []cincinnati.Node{}, ConditionalEdges: []cincinnati.ConditionalEdges{}}
	place := make([]int, len(g.nodes)) // in the part, from 1 on
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

		key, _ := json.Marshal(e.risks) // texts can be written
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
