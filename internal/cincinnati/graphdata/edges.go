package graphdata

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// edgeSet is the edges between the nodes of a graph under construction, with their known issues.
type edgeSet struct {
	*nodeList
	edges map[edge][]cincinnati.Risk
}

// addEdges adds the edges that releases and their metadata state. Unknown versions are ignored.
func (s *edgeSet) addEdges() {
	for i := range s.nodes {
		n, r := &s.nodes[i], &s.releases[i]
		for _, version := range slices.Concat(s.parseVersions(n, "previous", r.Previous), s.listedVersions(n, keyPreviousAdd)) {
			if from, ok := s.findNodeByVersion(version, n.architecture); ok {
				s.addEdge(edge{from, i})
			}
		}
		for _, version := range slices.Concat(s.parseVersions(n, "next", r.Next), s.listedVersions(n, keyNextAdd)) {
			if to, ok := s.findNodeByVersion(version, n.architecture); ok {
				s.addEdge(edge{i, to})
			}
		}
	}
}

func (s *edgeSet) addEdge(e edge) {
	if e.from == e.to {
		s.addWarning("%s lists itself as a version to update from or to", s.nodes[e.from].nameWithArchitecture())
		return
	}
	if _, known := s.edges[e]; !known {
		s.edges[e] = nil
	}
}

// addRisks adds known issues to the edges.
func (s *edgeSet) addRisks() {
	s.forEachBlockedEdge(func(e edge, blocked blockedEdge) {
		if risk := blocked.risk; risk != nil && !slices.ContainsFunc(s.edges[e], risk.Equal) {
			s.edges[e] = append(s.edges[e], *risk)
		}
	})
	for _, e := range s.sortedEdges() {
		risks := s.edges[e]
		slices.SortFunc(risks, func(x, y cincinnati.Risk) int {
			return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.URL, y.URL), strings.Compare(x.Message, y.Message))
		})
		s.dropEdgeWithInvalidRisks(e, risks)
	}
}

// dropEdgeWithInvalidRisks removes an edge that clusters would ignore, or whose issues would
// make them reject the graph.
func (s *edgeSet) dropEdgeWithInvalidRisks(e edge, risks []cincinnati.Risk) {
	for i := 1; i < len(risks); i++ {
		if risks[i].Name == risks[i-1].Name {
			s.addWarning("the update from %s to %s is left out: two different known issues of it are called %q", s.nodes[e.from].nameWithArchitecture(), s.nodes[e.to].nameWithArchitecture(), risks[i].Name)
			delete(s.edges, e)
			return
		}
	}

	if len(risks) > cincinnati.MaxRisks {
		s.addWarning("the update from %s to %s is left out: it has %d known issues, more than the %d that it may have", s.nodes[e.from].nameWithArchitecture(), s.nodes[e.to].nameWithArchitecture(), len(risks), cincinnati.MaxRisks)
		delete(s.edges, e)
	}
}

// forEachBlockedEdge calls a function for each edge that an entry of blocked-edges matches.
func (s *edgeSet) forEachBlockedEdge(found func(edge, blockedEdge)) {
	if len(s.data.blockedEdges) == 0 {
		return
	}

	for e := range s.edges {
		to, from := &s.nodes[e.to], s.nodes[e.from].nameWithArchitecture()
		for _, name := range []string{to.Version, to.nameWithArchitecture()} {
			for _, blocked := range s.data.blockedEdges[name] {
				if blocked.from.MatchString(from) {
					found(e, blocked)
				}
			}
		}
	}
}

// removeEdges removes the edges that are blocked, or that metadata removes.
func (s *edgeSet) removeEdges() {
	blocked := map[edge]bool{}
	s.forEachBlockedEdge(func(e edge, found blockedEdge) {
		if found.risk == nil {
			blocked[e] = true
		}
	})

	arriving, leaving := make([]*regexp.Regexp, len(s.nodes)), make([]bool, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		arriving[i] = s.compileRemovedSources(n)
		for _, from := range s.findNodesToRemove(n, keyPreviousRemove) {
			blocked[edge{from, i}] = true
		}

		leaving[i] = isWildcard(n.Metadata[keyNextRemove])
		for _, to := range s.findNodesToRemove(n, keyNextRemove) {
			blocked[edge{i, to}] = true
		}
	}

	for e := range s.edges {
		if pattern := arriving[e.to]; leaving[e.from] || pattern != nil && pattern.MatchString(s.nodes[e.from].nameWithArchitecture()) {
			blocked[e] = true
		}
	}

	maps.DeleteFunc(s.edges, func(e edge, _ []cincinnati.Risk) bool { return blocked[e] })
}

// breakCycles removes edges to older releases that are part of a cycle, because clients reject a
// graph with a cycle.
func (s *edgeSet) breakCycles() {
	arriving, leaving := make([]int, len(s.nodes)), make([][]int, len(s.nodes))
	for e, risks := range s.edges {
		if len(risks) == 0 {
			arriving[e.to]++
			leaving[e.from] = append(leaving[e.from], e.to)
		}
	}

	var queue []int
	for i, count := range arriving {
		if count == 0 {
			queue = append(queue, i)
		}
	}

	for at := 0; at < len(queue); at++ {
		for _, to := range leaving[queue[at]] {
			if arriving[to]--; arriving[to] == 0 {
				queue = append(queue, to)
			}
		}
	}

	if len(queue) == len(s.nodes) {
		return
	}

	for _, e := range s.sortedEdges() {
		if len(s.edges[e]) == 0 && arriving[e.from] > 0 && arriving[e.to] > 0 && s.nodes[e.to].parsedVersion.LTE(s.nodes[e.from].parsedVersion) {
			s.addWarning("the update from %s to %s is left out: it leads back in a circle of updates", s.nodes[e.from].nameWithArchitecture(), s.nodes[e.to].nameWithArchitecture())
			delete(s.edges, e)
		}
	}
}

func (s *edgeSet) sortedEdges() []edge {
	return slices.SortedFunc(maps.Keys(s.edges), func(x, y edge) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
}

func (s *edgeSet) buildGraph() *Graph {
	g := &Graph{nodes: s.nodes}
	for _, e := range s.sortedEdges() {
		if risks := s.edges[e]; len(risks) > 0 {
			g.conditional = append(g.conditional, conditionalEdge{e, risks})
		} else {
			g.edges = append(g.edges, e)
		}
	}

	for i := range g.nodes {
		for _, key := range buildOnlyKeys {
			delete(g.nodes[i].Metadata, key)
		}
	}
	return g
}
