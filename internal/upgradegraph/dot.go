package upgradegraph

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// WriteDOT draws packages in the DOT language of Graphviz, with a cluster per package and
// channel. An edge leads from each bundle to its updates. Edges of skips are dashed, edges of a
// skipRange dotted, and deprecated objects filled.
func WriteDOT(w io.Writer, drawings ...Drawing) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "digraph catalog {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for _, lane := range buildChannelLanes(drawings) {
		id := quoteDOTString("cluster " + lane.pkg + " " + lane.channel)
		fmt.Fprintf(b, "  subgraph %s {\n    label=%s;\n", id, quoteDOTString(lane.formatLaneTitle()))
		if lane.deprecated {
			fmt.Fprint(b, "    style=filled; fillcolor=\"#DCD0FF\";\n")
		}

		node := func(name string) string { return quoteDOTString(lane.pkg + " " + lane.channel + " " + name) }
		for _, stop := range lane.stops {
			fill := ""
			if stop.deprecated {
				fill = `, style=filled, fillcolor="#E8960F"`
			}
			fmt.Fprintf(b, "    %s [label=%s%s];\n", node(stop.name), quoteDOTString(stop.name), fill)
		}

		for _, edge := range lane.edges {
			fmt.Fprintf(b, "    %s -> %s%s;\n", node(edge.From), node(edge.To), formatStyleDOT(edge))
		}

		fmt.Fprint(b, "  }\n")
	}

	fmt.Fprint(b, "}\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}

	return nil
}

func formatStyleDOT(edge Edge) string {
	switch edge.Kind {
	case KindSkips:
		return " [style=dashed, label=skip]"
	case KindSkipRange:
		return " [style=dotted, label=" + quoteDOTString(edge.SkipRange) + "]"
	default:
		return ""
	}
}

// quoteDOTString returns a quoted string of the DOT language.
func quoteDOTString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(text) + `"`
}

// channelLane is a channel in a drawing.
type channelLane struct {
	pkg, channel string
	deprecated   bool
	// stops are the entries, highest version first.
	stops []laneStop
	// edges lead from old to new entries, in the order of the new entries. A bundle that an
	// entry refers to and that is not in the channel is also drawn as a stop.
	edges []Edge
}

// laneStop is an entry of a channel in a drawing.
type laneStop struct {
	name       string
	deprecated bool
	// absent is set if entries refer to the bundle and it is not in the channel.
	absent bool
	// skipRange is that of the entry, and coveredCount the number of other entries in it.
	skipRange    string
	coveredCount int
}

func (l channelLane) formatLaneTitle() string { return l.pkg + ", channel " + l.channel }

// buildChannelLanes returns the channels of packages, sorted by package and channel name.
func buildChannelLanes(drawings []Drawing) []channelLane {
	var all []channelLane
	for _, d := range drawings {
		deprecated := d.deprecatedReferences()
		for _, ch := range d.Graph.channels {
			all = append(all, d.Graph.buildChannelLane(ch, deprecated))
		}
	}

	slices.SortStableFunc(all, func(a, b channelLane) int {
		if c := strings.Compare(a.pkg, b.pkg); c != 0 {
			return c
		}
		return strings.Compare(a.channel, b.channel)
	})

	return all
}

func (g *Graph) buildChannelLane(ch channel, deprecated map[fbc.DeprecationReference]bool) channelLane {
	l := channelLane{
		pkg: g.pkg, channel: ch.name,
		deprecated: deprecated[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: ch.name}],
	}
	entries := slices.Clone(ch.entries)
	slices.SortStableFunc(entries, func(a, b fbc.ChannelEntry) int { return g.compareNewestFirst(a.Name, b.Name) })
	present := map[string]bool{}
	for _, entry := range entries {
		present[entry.Name] = true
	}

	var absent []laneStop
	from := func(name string, entry fbc.ChannelEntry, kind Kind) {
		if name == "" || name == entry.Name {
			return
		}
		if !present[name] {
			present[name] = true
			absent = append(absent, laneStop{name: name, absent: true})
		}
		l.edges = append(l.edges, Edge{From: name, To: entry.Name, Kind: kind})
	}

	for _, entry := range entries {
		s := laneStop{
			name: entry.Name, skipRange: entry.SkipRange,
			deprecated: deprecated[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: entry.Name}],
		}
		from(entry.Replaces, entry, KindReplaces)
		for _, skip := range entry.Skips {
			from(skip, entry, KindSkips)
		}

		for _, older := range g.coveredBundles(entry, entries) {
			s.coveredCount++
			l.edges = append(l.edges, Edge{From: older, To: entry.Name, Kind: KindSkipRange, SkipRange: entry.SkipRange})
		}

		l.stops = append(l.stops, s)
	}

	l.stops = append(l.stops, absent...)
	return l
}

// coveredBundles returns the other entries whose version is in an entry's skipRange.
func (g *Graph) coveredBundles(entry fbc.ChannelEntry, entries []fbc.ChannelEntry) []string {
	includes := g.ranges[entry.SkipRange].includes
	if includes == nil {
		return nil
	}

	var names []string
	for _, other := range entries {
		if v, known := g.versions[other.Name]; known && other.Name != entry.Name && includes(v) {
			names = append(names, other.Name)
		}
	}

	return names
}
