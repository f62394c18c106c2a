// Package upgradegraph models the channels of one package and the upgrade edges
// between its bundles: who succeeds whom, what the heads are, the shortest way from
// one version to another, and a drawing of it all.
//
// It is pure and knows edges only. Which bundle is installed is internal/resolve's
// choice; whether a catalog is valid is internal/fbc's.
package upgradegraph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Kind tells which directive of a channel entry makes an edge.
type Kind string

// The directives that make an edge.
const (
	KindReplaces  Kind = "replaces"
	KindSkips     Kind = "skips"
	KindSkipRange Kind = "skipRange"
)

// Node is a bundle from which a way is looked for. It need not be in the catalog.
type Node struct {
	// Name of the bundle.
	Name string
	// Version of the bundle. Nil means unknown: then no skipRange covers it.
	Version *semver.Version
}

// Edge is a possible update from one bundle to another.
type Edge struct {
	// From and To are names of bundles; an edge is never a loop.
	From, To string
	// Kind is the directive that makes the edge.
	Kind Kind
	// SkipRange is the range as the catalog has it. Empty for the other kinds.
	SkipRange string
	// Channels that state this edge, in the order in which they were given to New.
	Channels []string
}

// SkipRangeError says that a channel entry's skipRange cannot be read.
type SkipRangeError struct {
	Package, Channel, Entry string
	// SkipRange is the text that cannot be read.
	SkipRange string
	// Err tells why.
	Err error
}

// Error names the package, the channel and the entry to mend.
func (e *SkipRangeError) Error() string {
	return fmt.Sprintf("package %q, channel %q, entry %q: invalid skipRange %q: %v",
		e.Package, e.Channel, e.Entry, abbreviate(e.SkipRange), e.Err)
}

// Unwrap returns the reason.
func (e *SkipRangeError) Unwrap() error { return e.Err }

// Graph is the channels of one package. It is not changed after New, and so safe for
// concurrent use.
type Graph struct {
	pkg      string
	channels []channel
	versions map[string]semver.Version
	ranges   map[string]parsedRange
	// edges holds every distinct edge once, however many channels state it. A skipRange
	// edge has no From here: it is asked for each bundle anew.
	edges []Edge
	// byFrom finds the replaces and skips edges that leave a bundle.
	byFrom map[string][]int
	// ranged lists the skipRange edges.
	ranged []int
	// rank is, for each edge, the place of its target in newerFirst's order.
	rank     []int
	problems []error
}

// channel is one channel: entries of the same name are kept as they stand.
type channel struct {
	name    string
	entries []fbc.ChannelEntry
}

// edgeKey tells edges apart.
type edgeKey struct {
	kind               Kind
	from, to, rangeTxt string
}

// New builds the graph of the given channels of a package; to look at some channels
// only, give only these. versionOf tells the version of a bundle of the catalog, and
// false for a bundle that the catalog does not have; nil means that it has none.
//
// A catalog's faults do not stop it: an entry may point to bundles that do not exist,
// and a skipRange that cannot be read covers nothing and is reported by Err.
func New(pkg string, channels []fbc.Channel, versionOf func(bundle string) (semver.Version, bool)) *Graph {
	g := &Graph{
		pkg:      pkg,
		versions: map[string]semver.Version{},
		ranges:   map[string]parsedRange{},
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
			g.addEntry(index, ch.Name, entry)
		}
	}

	g.rankEdges()
	return g
}

// rankEdges sorts the targets once, so that no search needs to compare versions.
func (g *Graph) rankEdges() {
	place := map[string]int{}
	var names []string
	for _, edge := range g.edges {
		if _, seen := place[edge.To]; !seen {
			place[edge.To] = 0
			names = append(names, edge.To)
		}
	}

	slices.SortFunc(names, g.newerFirst)
	for i, name := range names {
		place[name] = i
	}

	g.rank = make([]int, len(g.edges))
	for i, edge := range g.edges {
		g.rank[i] = place[edge.To]
	}
}

// addEntry adds the edges that one entry makes.
func (g *Graph) addEntry(index map[edgeKey]int, channel string, entry fbc.ChannelEntry) {
	if entry.Replaces != "" && entry.Replaces != entry.Name {
		g.add(index, edgeKey{kind: KindReplaces, from: entry.Replaces, to: entry.Name}, channel)
	}

	for _, skip := range entry.Skips {
		if skip != "" && skip != entry.Name {
			g.add(index, edgeKey{kind: KindSkips, from: skip, to: entry.Name}, channel)
		}
	}

	if entry.SkipRange == "" {
		return
	}

	parsed, seen := g.ranges[entry.SkipRange]
	if !seen {
		parsed = parseRange(entry.SkipRange)
		g.ranges[entry.SkipRange] = parsed
	}

	if parsed.err != nil {
		g.problems = append(g.problems, &SkipRangeError{
			Package: g.pkg, Channel: channel, Entry: entry.Name, SkipRange: entry.SkipRange, Err: parsed.err,
		})
		return
	}

	g.add(index, edgeKey{kind: KindSkipRange, to: entry.Name, rangeTxt: entry.SkipRange}, channel)
}

// add notes that a channel states an edge.
func (g *Graph) add(index map[edgeKey]int, key edgeKey, channel string) {
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
		From: key.from, To: key.to, Kind: key.kind, SkipRange: key.rangeTxt, Channels: []string{channel},
	})
	if key.kind == KindSkipRange {
		g.ranged = append(g.ranged, at)
	} else {
		g.byFrom[key.from] = append(g.byFrom[key.from], at)
	}
}

// Err joins one *SkipRangeError for each skipRange that cannot be read; nil when all
// can. The graph is usable all the same.
func (g *Graph) Err() error { return errors.Join(g.problems...) }

// Problems are the errors that Err joins, for those who report them one by one.
func (g *Graph) Problems() []error { return slices.Clone(g.problems) }

// Channels are the names of the channels, in the order in which they were given.
func (g *Graph) Channels() []string {
	names := make([]string, 0, len(g.channels))
	for _, ch := range g.channels {
		names = append(names, ch.name)
	}
	return names
}

// Heads are the entries of a channel that no other entry of it replaces or skips,
// highest version first and those of unknown version last. A well-formed channel of
// OLM Classic has one; an unknown channel, or one whose entries go in a circle, none.
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
				followed[entry.Name] = true // a name that stands twice is one head
				heads = append(heads, entry.Name)
			}
		}
	}

	slices.SortFunc(heads, g.newerFirst)
	return heads
}

// Successors are the edges that leave a bundle: those of entries that replace or skip
// it by name, and those of entries whose skipRange holds its version. They are
// ordered by the version of their target, highest first and unknown last; several
// edges can lead to one target.
func (g *Graph) Successors(from Node) []Edge { return g.leaving(from, nil) }

// leaving is Successors without the edges to the targets already seen.
func (g *Graph) leaving(from Node, seen map[string]Edge) []Edge {
	var found []int
	for _, at := range g.byFrom[from.Name] {
		if _, skip := seen[g.edges[at].To]; !skip {
			found = append(found, at)
		}
	}

	if from.Version != nil {
		for _, at := range g.ranged {
			edge := &g.edges[at]
			if _, skip := seen[edge.To]; !skip && edge.To != from.Name && g.ranges[edge.SkipRange].has(*from.Version) {
				found = append(found, at)
			}
		}
	}

	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(g.rank[a], g.rank[b]) })
	edges := make([]Edge, 0, len(found))
	for _, at := range found {
		edge := g.edges[at]
		edge.From = from.Name
		edges = append(edges, edge)
	}

	return edges
}

// ShortestPath is the way with the fewest updates from a bundle to another, through
// bundles that the catalog has; of several such ways the one whose first step has the
// highest version. It is empty when from already is the target, and false when there
// is no way.
func (g *Graph) ShortestPath(from Node, to string) ([]Edge, bool) {
	if from.Name == to {
		return nil, true
	}

	arrivedBy := map[string]Edge{from.Name: {}}
	queue := []Node{from}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		for _, edge := range g.leaving(here, arrivedBy) {
			version, known := g.versions[edge.To]
			if _, seen := arrivedBy[edge.To]; seen || !known {
				continue
			}

			arrivedBy[edge.To] = edge
			if edge.To == to {
				return trace(arrivedBy, from.Name, to), true
			}

			queue = append(queue, Node{Name: edge.To, Version: &version})
		}
	}

	return nil, false
}

// trace follows the edges of a search back to its start.
func trace(arrivedBy map[string]Edge, from, to string) []Edge {
	var path []Edge
	for at := to; at != from; at = arrivedBy[at].From {
		path = append(path, arrivedBy[at])
	}
	slices.Reverse(path)
	return path
}

// newerFirst orders bundles: highest version first, unknown versions last, names
// where that does not decide.
func (g *Graph) newerFirst(a, b string) int {
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
