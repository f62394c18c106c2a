package upgradegraph

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// WriteDOT draws packages in the language of Graphviz: a cluster per package and channel,
// an edge from each bundle to those that update it. Edges of skips are dashed, those of
// a skipRange dotted; what is deprecated is filled.
func WriteDOT(w io.Writer, drawings ...Drawing) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "digraph catalog {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for _, lane := range lanes(drawings) {
		id := quoteDOT("cluster " + lane.pkg + " " + lane.channel)
		fmt.Fprintf(b, "  subgraph %s {\n    label=%s;\n", id, quoteDOT(lane.title()))
		if lane.deprecated {
			fmt.Fprint(b, "    style=filled; fillcolor=\"#DCD0FF\";\n")
		}

		node := func(name string) string { return quoteDOT(lane.pkg + " " + lane.channel + " " + name) }
		for _, stop := range lane.stops {
			fill := ""
			if stop.deprecated {
				fill = `, style=filled, fillcolor="#E8960F"`
			}
			fmt.Fprintf(b, "    %s [label=%s%s];\n", node(stop.name), quoteDOT(stop.name), fill)
		}

		for _, edge := range lane.edges {
			fmt.Fprintf(b, "    %s -> %s%s;\n", node(edge.From), node(edge.To), styleDOT(edge))
		}

		fmt.Fprint(b, "  }\n")
	}

	fmt.Fprint(b, "}\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}

	return nil
}

func styleDOT(edge Edge) string {
	switch edge.Kind {
	case KindSkips:
		return " [style=dashed, label=skip]"
	case KindSkipRange:
		return " [style=dotted, label=" + quoteDOT(edge.SkipRange) + "]"
	default:
		return ""
	}
}

// quoteDOT writes a string of the DOT language.
func quoteDOT(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(text) + `"`
}

// lane is a channel as it is drawn.
type lane struct {
	pkg, channel string
	deprecated   bool
	// stops are the entries, highest version first.
	stops []stop
	// edges between them, from old to new, in the order of the entries they lead to. A
	// bundle that an entry names and that the channel does not have is drawn as a stop.
	edges []Edge
}

// stop is an entry of a channel as it is drawn.
type stop struct {
	name       string
	deprecated bool
	// absent says that entries name it and the channel does not have it.
	absent bool
	// skipRange of the entry, and how many others of the channel it holds.
	skipRange string
	covers    int
}

func (l lane) title() string { return l.pkg + ", channel " + l.channel }

// lanes returns the channels of packages, sorted by the names of both.
func lanes(drawings []Drawing) []lane {
	var all []lane
	for _, d := range drawings {
		deprecated := d.deprecated()
		for _, ch := range d.Graph.channels {
			all = append(all, d.Graph.lane(ch, deprecated))
		}
	}

	slices.SortStableFunc(all, func(a, b lane) int {
		if c := strings.Compare(a.pkg, b.pkg); c != 0 {
			return c
		}
		return strings.Compare(a.channel, b.channel)
	})

	return all
}

func (g *Graph) lane(ch channel, deprecated map[fbc.DeprecationReference]bool) lane {
	l := lane{
		pkg: g.pkg, channel: ch.name,
		deprecated: deprecated[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: ch.name}],
	}
	entries := slices.Clone(ch.entries)
	slices.SortStableFunc(entries, func(a, b fbc.ChannelEntry) int { return g.newerFirst(a.Name, b.Name) })
	present := map[string]bool{}
	for _, entry := range entries {
		present[entry.Name] = true
	}

	var absent []stop
	from := func(name string, entry fbc.ChannelEntry, kind Kind) {
		if name == "" || name == entry.Name {
			return
		}
		if !present[name] {
			present[name] = true
			absent = append(absent, stop{name: name, absent: true})
		}
		l.edges = append(l.edges, Edge{From: name, To: entry.Name, Kind: kind})
	}

	for _, entry := range entries {
		s := stop{
			name: entry.Name, skipRange: entry.SkipRange,
			deprecated: deprecated[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: entry.Name}],
		}
		from(entry.Replaces, entry, KindReplaces)
		for _, skip := range entry.Skips {
			from(skip, entry, KindSkips)
		}

		for _, older := range g.covered(entry, entries) {
			s.covers++
			l.edges = append(l.edges, Edge{From: older, To: entry.Name, Kind: KindSkipRange, SkipRange: entry.SkipRange})
		}

		l.stops = append(l.stops, s)
	}

	l.stops = append(l.stops, absent...)
	return l
}

// covered returns the other entries whose version an entry's skipRange holds.
func (g *Graph) covered(entry fbc.ChannelEntry, entries []fbc.ChannelEntry) []string {
	r := g.ranges[entry.SkipRange]
	if len(r.anyOf) == 0 {
		return nil
	}

	var names []string
	for _, other := range entries {
		if v, known := g.versions[other.Name]; known && other.Name != entry.Name && r.has(v) {
			names = append(names, other.Name)
		}
	}

	return names
}
