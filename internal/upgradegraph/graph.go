// Package upgradegraph models the channels of one package and the upgrade edges between its
// bundles. It finds the successors of a bundle, the heads of a channel and the shortest path
// between two bundles. It also compares and draws graphs.
//
// The package only knows edges. Package internal/resolve selects the bundle to install;
// internal/fbc validates catalogs.
package upgradegraph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// Kind is the directive of a channel entry that creates an edge.
type Kind string

// Directives that create an edge.
const (
	KindReplaces  Kind = "replaces"
	KindSkips     Kind = "skips"
	KindSkipRange Kind = "skipRange"
)

// Node is the start of a search. The bundle need not be in the catalog.
type Node struct {
	// Name is the name of the bundle.
	Name string
	// Version is the version of the bundle. Nil means unknown: no skipRange covers the bundle.
	Version *semver.Version
}

// Edge is a possible update from one bundle to another.
type Edge struct {
	// From and To are names of bundles, which are never equal.
	From, To string
	// Kind is the directive that creates the edge.
	Kind Kind
	// SkipRange is the range in the catalog. It is empty for the other kinds.
	SkipRange string
	// Channels are the channels with this edge, in the order in which they were passed to New.
	Channels []string
}

// maxQuotedBytes is the maximum length of a skipRange in an error.
const maxQuotedBytes = 100

// SkipRangeError is the error for an invalid skipRange of a channel entry.
type SkipRangeError struct {
	Package, Channel, Entry string
	// SkipRange is the invalid text.
	SkipRange string
	// Err is the reason.
	Err error
}

// Error returns the package, the channel, the entry and the reason.
func (e *SkipRangeError) Error() string {
	return fmt.Sprintf("package %q, channel %q, entry %q: invalid skipRange %q: %v",
		e.Package, e.Channel, e.Entry, excerpt.Line(e.SkipRange, maxQuotedBytes), e.Err)
}

// Unwrap returns the reason.
func (e *SkipRangeError) Unwrap() error { return e.Err }

// Graph has the channels of one package. It is immutable and safe for concurrent use.
type Graph struct {
	pkg      string
	channels []channel
	versions map[string]semver.Version
	// ranges are those of the entries, by their text.
	ranges map[string]skipRange
	// edges has every distinct edge once, with all its channels. A skipRange edge has no From, as
	// it is evaluated for each bundle.
	edges []Edge
	// byFrom indexes the replaces and skips edges by their start.
	byFrom map[string][]int
	// rangeEdges are the indexes of the skipRange edges.
	rangeEdges []int
	// targetRank is the position of each edge's target in the order of compareNewestFirst.
	targetRank []int
	problems   []error
}

// channel is one channel. It keeps several entries of the same name.
type channel struct {
	name    string
	entries []fbc.ChannelEntry
}

// skipRange is a parsed skipRange, or the error of parsing it.
type skipRange struct {
	includes semver.Range
	err      error
}

// edgeKey identifies an edge.
type edgeKey struct {
	kind                Kind
	from, to, skipRange string
}

// New returns the graph of the given channels of a package. Pass a subset of the channels to
// restrict the graph to them. versionOf returns the version of a bundle of the catalog, and false
// for a bundle that is not in the catalog; nil means that the catalog has no bundles.
//
// New does not fail for invalid catalogs. An entry may refer to bundles that do not exist. An
// invalid skipRange covers nothing and is reported by Err.
func New(pkg string, channels []fbc.Channel, versionOf func(bundle string) (semver.Version, bool)) *Graph {
	g := &Graph{
		pkg:      pkg,
		versions: map[string]semver.Version{},
		ranges:   map[string]skipRange{},
		byFrom:   map[string][]int{},
	}

	index := map[edgeKey]int{}
	position := map[string]int{}
	for _, ch := range channels {
		at, seen := position[ch.Name]
		if !seen {
			at = len(g.channels)
			position[ch.Name] = at
			g.channels = append(g.channels, channel{name: ch.Name})
		}
		for _, entry := range ch.Entries {
			if entry.Name == "" {
				continue
			}
			g.channels[at].entries = append(g.channels[at].entries, entry)
			if _, known := g.versions[entry.Name]; !known && versionOf != nil {
				if v, ok := versionOf(entry.Name); ok {
					g.versions[entry.Name] = v
				}
			}
			g.addEntryEdges(index, ch.Name, entry)
		}
	}

	g.rankEdgeTargets()
	return g
}

// rankEdgeTargets sorts the targets of the edges once, so that searches do not compare versions.
func (g *Graph) rankEdgeTargets() {
	place := map[string]int{}
	var names []string
	for _, edge := range g.edges {
		if _, seen := place[edge.To]; !seen {
			place[edge.To] = 0
			names = append(names, edge.To)
		}
	}

	slices.SortFunc(names, g.compareNewestFirst)
	for i, name := range names {
		place[name] = i
	}

	g.targetRank = make([]int, len(g.edges))
	for i, edge := range g.edges {
		g.targetRank[i] = place[edge.To]
	}
}

// addEntryEdges adds the edges of one entry.
func (g *Graph) addEntryEdges(index map[edgeKey]int, channel string, entry fbc.ChannelEntry) {
	if entry.Replaces != "" && entry.Replaces != entry.Name {
		g.addChannelEdge(index, edgeKey{kind: KindReplaces, from: entry.Replaces, to: entry.Name}, channel)
	}

	for _, skip := range entry.Skips {
		if skip != "" && skip != entry.Name {
			g.addChannelEdge(index, edgeKey{kind: KindSkips, from: skip, to: entry.Name}, channel)
		}
	}

	if entry.SkipRange == "" {
		return
	}

	parsed, seen := g.ranges[entry.SkipRange]
	if !seen {
		parsed.includes, parsed.err = versionrange.Parse(entry.SkipRange)
		g.ranges[entry.SkipRange] = parsed
	}

	if parsed.err != nil {
		g.problems = append(g.problems, &SkipRangeError{
			Package: g.pkg, Channel: channel, Entry: entry.Name, SkipRange: entry.SkipRange, Err: parsed.err,
		})
		return
	}

	g.addChannelEdge(index, edgeKey{kind: KindSkipRange, to: entry.Name, skipRange: entry.SkipRange}, channel)
}

// addChannelEdge adds an edge, or the channel to an existing edge.
func (g *Graph) addChannelEdge(index map[edgeKey]int, key edgeKey, channel string) {
	if at, seen := index[key]; seen {
		edge := &g.edges[at]
		if !slices.Contains(edge.Channels, channel) {
			edge.Channels = append(edge.Channels, channel)
		}
		return
	}

	at := len(g.edges)
	index[key] = at
	g.edges = append(g.edges, Edge{
		From: key.from, To: key.to, Kind: key.kind, SkipRange: key.skipRange, Channels: []string{channel},
	})
	if key.kind == KindSkipRange {
		g.rangeEdges = append(g.rangeEdges, at)
	} else {
		g.byFrom[key.from] = append(g.byFrom[key.from], at)
	}
}

// Err joins a *SkipRangeError for each invalid skipRange. It returns nil if there are none. The
// graph can be used in either case.
func (g *Graph) Err() error { return errors.Join(g.problems...) }

// Problems returns the errors that Err joins.
func (g *Graph) Problems() []error { return slices.Clone(g.problems) }

// Channels returns the names of the channels, in the order in which they were passed to New.
func (g *Graph) Channels() []string {
	names := make([]string, 0, len(g.channels))
	for _, ch := range g.channels {
		names = append(names, ch.name)
	}
	return names
}

// Heads returns the entries of a channel that no other entry replaces or skips, highest version
// first and unknown versions last. A valid channel of OLM Classic has one head. An unknown
// channel, or one whose entries form a cycle, has none.
func (g *Graph) Heads(channelName string) []string {
	var heads []string
	for _, ch := range g.channels {
		if ch.name != channelName {
			continue
		}
		followed := map[string]bool{}
		for _, entry := range ch.entries {
			for _, older := range append([]string{entry.Replaces}, entry.Skips...) {
				if older != entry.Name {
					followed[older] = true
				}
			}
		}
		for _, entry := range ch.entries {
			if !followed[entry.Name] {
				followed[entry.Name] = true // A duplicate entry counts as one head.
				heads = append(heads, entry.Name)
			}
		}
	}

	slices.SortFunc(heads, g.compareNewestFirst)
	return heads
}

// Successors returns the edges that start at a bundle: those of entries that replace or skip it
// by name, and those of entries whose skipRange contains its version. They are sorted by the
// version of their target, highest first and unknown last. Several edges can have the same
// target.
func (g *Graph) Successors(from Node) []Edge { return g.findSuccessors(from, nil) }

// findSuccessors returns the Successors without the edges to targets in seen.
func (g *Graph) findSuccessors(from Node, seen map[string]Edge) []Edge {
	var found []int
	for _, at := range g.byFrom[from.Name] {
		if _, skip := seen[g.edges[at].To]; !skip {
			found = append(found, at)
		}
	}

	if from.Version != nil {
		for _, at := range g.rangeEdges {
			edge := &g.edges[at]
			if _, skip := seen[edge.To]; !skip && edge.To != from.Name && g.ranges[edge.SkipRange].includes(*from.Version) {
				found = append(found, at)
			}
		}
	}

	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(g.targetRank[a], g.targetRank[b]) })
	edges := make([]Edge, 0, len(found))
	for _, at := range found {
		edge := g.edges[at]
		edge.From = from.Name
		edges = append(edges, edge)
	}

	return edges
}

// ShortestPath returns the path with the fewest updates between two bundles, through bundles of
// the catalog. Of several such paths it returns the one whose first step has the highest version.
// The path is empty if from is the target. It returns false if there is no path.
func (g *Graph) ShortestPath(from Node, to string) ([]Edge, bool) {
	if from.Name == to {
		return nil, true
	}

	arrivedBy := map[string]Edge{from.Name: {}}
	queue := []Node{from}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		for _, edge := range g.findSuccessors(here, arrivedBy) {
			version, known := g.versions[edge.To]
			if _, seen := arrivedBy[edge.To]; seen || !known {
				continue
			}

			arrivedBy[edge.To] = edge
			if edge.To == to {
				return traceSearchPath(arrivedBy, from.Name, to), true
			}

			queue = append(queue, Node{Name: edge.To, Version: &version})
		}
	}

	return nil, false
}

// traceSearchPath returns the path of a search from its start to a target.
func traceSearchPath(arrivedBy map[string]Edge, from, to string) []Edge {
	var path []Edge
	for at := to; at != from; at = arrivedBy[at].From {
		path = append(path, arrivedBy[at])
	}
	slices.Reverse(path)
	return path
}

// compareNewestFirst orders bundles by version, highest first and unknown last, and then by name.
func (g *Graph) compareNewestFirst(a, b string) int {
	va, knownA := g.versions[a]
	vb, knownB := g.versions[b]
	switch {
	case knownA && knownB:
		return cmp.Or(vb.Compare(va), strings.Compare(a, b))
	case knownA:
		return -1
	case knownB:
		return 1
	default:
		return strings.Compare(a, b)
	}
}
