package upgradegraph

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Drawing is a graph with the deprecations of its package.
type Drawing struct {
	Graph *Graph
	// Deprecations may be nil.
	Deprecations *fbc.Deprecations
}

// Mermaid has the options for drawing packages as a Mermaid flowchart. The text is that of `opm
// alpha render-graph`, which pages and scripts embed.
type Mermaid struct {
	// MinimumEdge is the name of a bundle. If it is set, only its package is drawn, and only
	// bundles of its version and above. The bundle itself is drawn without edges.
	MinimumEdge string
	// V0Semantics marks bundles that OLM v0 does not install, which a newer bundle of the channel
	// skips, and the edges to them.
	V0Semantics bool
}

// WriteMermaid draws packages with the default options.
func WriteMermaid(w io.Writer, drawings ...Drawing) error { return Mermaid{}.Write(w, drawings...) }

// Write draws a box per package and channel, both sorted by name. Entries are sorted by
// descending version; entries without a bundle in the catalog have version 0.0.0. Entries of
// equal version keep the order of the channel. The edges to an entry follow it. Deprecated
// packages, channels and bundles are coloured. An invalid skipRange has no edges (see
// [Graph.Problems]).
//
// It returns an error if no package has the minimum edge, or if w fails.
func (m Mermaid) Write(w io.Writer, drawings ...Drawing) error {
	drawings = slices.Clone(drawings)
	slices.SortStableFunc(drawings, func(a, b Drawing) int { return strings.Compare(a.Graph.pkg, b.Graph.pkg) })
	if m.MinimumEdge != "" {
		drawings = slices.DeleteFunc(drawings, func(d Drawing) bool {
			_, known := d.Graph.versions[m.MinimumEdge]
			return !known
		})
		if len(drawings) == 0 {
			return fmt.Errorf("unknown minimum edge name: %q", m.MinimumEdge)
		}
	}

	s := mermaidWriter{Mermaid: m, bundleClasses: map[string][]string{}}
	for _, d := range drawings {
		s.drawPackageBox(d)
	}

	if err := s.writeFlowchart(w); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}

	return nil
}

const mermaidHeader = `graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
`

// mermaidWriter writes one flowchart.
type mermaidWriter struct {
	Mermaid
	body bytes.Buffer
	// deprecatedPackages and deprecatedChannels are the IDs of deprecated boxes.
	deprecatedPackages, deprecatedChannels []string
	// bundleClasses has the IDs of bundles by their class. A node can have only one class.
	bundleClasses map[string][]string
	// linkCount is the number of edges drawn so far. An edge is identified by its number.
	linkCount int
	// unfollowedLinks are the edges that OLM v0 does not follow.
	unfollowedLinks []string
}

func (s *mermaidWriter) writeFlowchart(w io.Writer) error {
	for _, id := range s.deprecatedPackages {
		fmt.Fprintf(&s.body, "style %s fill:#989695\n", id)
	}

	for _, id := range s.deprecatedChannels {
		fmt.Fprintf(&s.body, "style %s fill:#DCD0FF\n", id)
	}

	for _, class := range slices.Sorted(maps.Keys(s.bundleClasses)) {
		ids := s.bundleClasses[class]
		slices.Sort(ids)
		fmt.Fprintf(&s.body, "class %s %s\n", strings.Join(ids, ","), class)
	}

	if len(s.unfollowedLinks) > 0 {
		fmt.Fprintf(&s.body, "linkStyle %s stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;\n", strings.Join(s.unfollowedLinks, ","))
	}
	if _, err := io.WriteString(w, mermaidHeader); err != nil {
		return err
	}

	_, err := s.body.WriteTo(w)
	return err
}

func (s *mermaidWriter) drawPackageBox(d Drawing) {
	g := d.Graph
	deprecated := d.deprecatedReferences()
	fmt.Fprintf(&s.body, "  %%%% package %s\n  subgraph %s\n", quoteMermaidLabel(g.pkg), quoteMermaidLabel(g.pkg))
	if deprecated[fbc.DeprecationReference{Schema: fbc.SchemaPackage}] {
		s.deprecatedPackages = append(s.deprecatedPackages, formatMermaidID(g.pkg))
	}

	channels := slices.Clone(g.channels)
	slices.SortStableFunc(channels, func(a, b channel) int { return strings.Compare(a.name, b.name) })
	for _, ch := range channels {
		if s.MinimumEdge != "" {
			if ch = g.filterFromVersion(ch, s.MinimumEdge); len(ch.entries) == 0 {
				continue
			}
		}
		s.drawChannelBox(g, ch, deprecated)
	}

	s.body.WriteString("  end\n")
}

func (s *mermaidWriter) drawChannelBox(g *Graph, ch channel, deprecated map[fbc.DeprecationReference]bool) {
	channelID := formatMermaidID(g.pkg, ch.name)
	fmt.Fprintf(&s.body, "    %%%% channel %s\n    subgraph %s[%s]\n", quoteMermaidLabel(ch.name), channelID, quoteMermaidLabel(ch.name))
	if deprecated[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: ch.name}] {
		s.deprecatedChannels = append(s.deprecatedChannels, channelID)
	}

	entries := slices.Clone(ch.entries)
	// Versions that differ only in build metadata are equal and keep the order of the catalog,
	// as in opm. This matters because only an entry that is drawn earlier marks another one as
	// skipped. As in opm, the sort is not stable for long channels.
	slices.SortFunc(entries, func(a, b fbc.ChannelEntry) int { return g.versions[b.Name].Compare(g.versions[a.Name]) })
	skipped := map[string]bool{}
	for _, entry := range entries {
		class := ""
		if deprecated[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: entry.Name}] {
			class = "deprecated"
		}
		if skipped[entry.Name] {
			class += "skipped"
		}
		if class != "" {
			s.bundleClasses[class] = append(s.bundleClasses[class], formatMermaidID(g.pkg, ch.name, entry.Name))
		}

		s.drawChannelEntry(g, ch, entry, skipped)
	}

	s.body.WriteString("    end\n")
}

// drawChannelEntry writes an entry and the edges to it, and records the bundles that it skips.
func (s *mermaidWriter) drawChannelEntry(g *Graph, ch channel, entry fbc.ChannelEntry, skipped map[string]bool) {
	node := func(name string) string {
		return formatMermaidID(g.pkg, ch.name, name) + "[" + quoteMermaidLabel(name) + "]"
	}
	link := func(from, text string, dead bool) {
		fmt.Fprintf(&s.body, "      %s-- %s --> %s\n", node(from), text, node(entry.Name))
		if dead {
			s.unfollowedLinks = append(s.unfollowedLinks, strconv.Itoa(s.linkCount))
		}
		s.linkCount++
	}

	fmt.Fprintf(&s.body, "      %s\n", node(entry.Name))
	for _, skip := range entry.Skips {
		link(skip, "skip", skipped[skip])
		if s.V0Semantics {
			skipped[skip] = true
		}
	}

	if includes := g.ranges[entry.SkipRange].includes; includes != nil {
		for _, older := range ch.entries {
			if includes(g.versions[older.Name]) {
				link(older.Name, quoteMermaidLabel("skipRange("+entry.SkipRange+")"), skipped[entry.Name])
			}
		}
	}

	if entry.Replaces != "" {
		link(entry.Replaces, "replace", skipped[entry.Name])
	}
}

// filterFromVersion returns a channel with the bundles of at least a bundle's version, and the
// edges between them.
func (g *Graph) filterFromVersion(ch channel, floor string) channel {
	lowest := g.versions[floor]
	below := func(name string) bool { return g.versions[name].LT(lowest) }
	kept := channel{name: ch.name}
	for _, entry := range ch.entries {
		switch {
		case entry.Name == floor:
			entry = fbc.ChannelEntry{Name: entry.Name}
		case below(entry.Name):
			continue
		}
		if below(entry.Replaces) {
			entry.Replaces = ""
		}
		entry.Skips = slices.DeleteFunc(slices.Clone(entry.Skips), below)
		kept.entries = append(kept.entries, entry)
	}

	return kept
}

// deprecatedReferences returns the deprecated objects of the package.
func (d Drawing) deprecatedReferences() map[fbc.DeprecationReference]bool {
	named := map[fbc.DeprecationReference]bool{}
	if d.Deprecations != nil {
		for _, entry := range d.Deprecations.Entries {
			named[entry.Reference] = true
		}
	}
	return named
}

// formatMermaidID joins names to the ID of a node. It replaces characters that Mermaid could
// interpret as syntax by underscores.
func formatMermaidID(names ...string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		default:
			return '_'
		}
	}, strings.Join(names, "-"))
}

var mermaidEscaper = strings.NewReplacer(`"`, "#quot;", "\n", " ", "\r", " ")

// quoteMermaidLabel quotes a text for Mermaid.
func quoteMermaidLabel(text string) string { return `"` + mermaidEscaper.Replace(text) + `"` }
