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

// Drawing is a graph and what of it is deprecated.
type Drawing struct {
	Graph *Graph
	// Deprecations of the package; nil when nothing is deprecated.
	Deprecations *fbc.Deprecations
}

// Mermaid says how packages are drawn as a Mermaid flowchart. The text is that of
// `opm alpha render-graph`, which pages and scripts embed.
type Mermaid struct {
	// MinimumEdge is the name of a bundle: only its package is drawn, and of that only
	// bundles of its version and above, it itself without edges. Empty means everything.
	MinimumEdge string
	// V0Semantics marks what OLM v0 will not install: a bundle that a newer one of its
	// channel skips, and the edges that lead to it.
	V0Semantics bool
}

// WriteMermaid draws packages without regard to how OLM v0 reads them.
func WriteMermaid(w io.Writer, drawings ...Drawing) error { return Mermaid{}.Write(w, drawings...) }

// Write draws a box per package and channel, both sorted by name; the entries by
// descending version, those that the catalog has no bundle for as version 0.0.0, and those of
// equal version in the order of the channel; after
// each entry the edges that lead to it, from old to new. Deprecated packages, channels
// and bundles are coloured. A skipRange that cannot be read has no edges (see
// [Graph.Problems]).
//
// It fails when no package has the minimum edge, and when w does.
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

	s := sketch{Mermaid: m, classes: map[string][]string{}}
	for _, d := range drawings {
		s.drawPackage(d)
	}

	if err := s.writeTo(w); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}

	return nil
}

const mermaidHeader = `graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
`

// sketch is a flowchart while it is drawn.
type sketch struct {
	Mermaid
	body bytes.Buffer
	// packages and channels are the ids of those that are deprecated.
	packages, channels []string
	// classes has the ids of bundles by their class; a node can have only one.
	classes map[string][]string
	// links counts the edges drawn so far: an edge has no other name.
	links int
	// dead are the edges that OLM v0 does not follow.
	dead []string
}

func (s *sketch) writeTo(w io.Writer) error {
	for _, id := range s.packages {
		fmt.Fprintf(&s.body, "style %s fill:#989695\n", id)
	}

	for _, id := range s.channels {
		fmt.Fprintf(&s.body, "style %s fill:#DCD0FF\n", id)
	}

	for _, class := range slices.Sorted(maps.Keys(s.classes)) {
		ids := s.classes[class]
		slices.Sort(ids)
		fmt.Fprintf(&s.body, "class %s %s\n", strings.Join(ids, ","), class)
	}

	if len(s.dead) > 0 {
		fmt.Fprintf(&s.body, "linkStyle %s stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;\n", strings.Join(s.dead, ","))
	}
	if _, err := io.WriteString(w, mermaidHeader); err != nil {
		return err
	}

	_, err := s.body.WriteTo(w)
	return err
}

func (s *sketch) drawPackage(d Drawing) {
	g := d.Graph
	deprecated := d.deprecated()
	fmt.Fprintf(&s.body, "  %%%% package %s\n  subgraph %s\n", label(g.pkg), label(g.pkg))
	if deprecated[fbc.DeprecationReference{Schema: fbc.SchemaPackage}] {
		s.packages = append(s.packages, identifier(g.pkg))
	}

	channels := slices.Clone(g.channels)
	slices.SortStableFunc(channels, func(a, b channel) int { return strings.Compare(a.name, b.name) })
	for _, ch := range channels {
		if s.MinimumEdge != "" {
			if ch = g.above(ch, s.MinimumEdge); len(ch.entries) == 0 {
				continue
			}
		}
		s.drawChannel(g, ch, deprecated)
	}

	s.body.WriteString("  end\n")
}

func (s *sketch) drawChannel(g *Graph, ch channel, deprecated map[fbc.DeprecationReference]bool) {
	channelID := identifier(g.pkg, ch.name)
	fmt.Fprintf(&s.body, "    %%%% channel %s\n    subgraph %s[%s]\n", label(ch.name), channelID, label(ch.name))
	if deprecated[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: ch.name}] {
		s.channels = append(s.channels, channelID)
	}

	entries := slices.Clone(ch.entries)
	// Versions that differ only in their build metadata are equal, and keep the order of the
	// catalog, as in the field: an entry is marked as skipped only by one that is drawn before it.
	// The sort is not stable for long channels, as that of the field is not.
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
			s.classes[class] = append(s.classes[class], identifier(g.pkg, ch.name, entry.Name))
		}

		s.drawEntry(g, ch, entry, skipped)
	}

	s.body.WriteString("    end\n")
}

// drawEntry writes an entry and the edges that lead to it, and notes what it skips.
func (s *sketch) drawEntry(g *Graph, ch channel, entry fbc.ChannelEntry, skipped map[string]bool) {
	node := func(name string) string {
		return identifier(g.pkg, ch.name, name) + "[" + label(name) + "]"
	}
	link := func(from, text string, dead bool) {
		fmt.Fprintf(&s.body, "      %s-- %s --> %s\n", node(from), text, node(entry.Name))
		if dead {
			s.dead = append(s.dead, strconv.Itoa(s.links))
		}
		s.links++
	}

	fmt.Fprintf(&s.body, "      %s\n", node(entry.Name))
	for _, skip := range entry.Skips {
		link(skip, "skip", skipped[skip])
		if s.V0Semantics {
			skipped[skip] = true
		}
	}

	if r := g.ranges[entry.SkipRange]; len(r.anyOf) > 0 {
		for _, older := range ch.entries {
			if r.has(g.versions[older.Name]) {
				link(older.Name, label("skipRange("+entry.SkipRange+")"), skipped[entry.Name])
			}
		}
	}

	if entry.Replaces != "" {
		link(entry.Replaces, "replace", skipped[entry.Name])
	}
}

// above returns what a channel has of a bundle's version and above, and the edges between.
func (g *Graph) above(ch channel, floor string) channel {
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

// deprecated returns what the package's deprecations name.
func (d Drawing) deprecated() map[fbc.DeprecationReference]bool {
	named := map[fbc.DeprecationReference]bool{}
	if d.Deprecations != nil {
		for _, entry := range d.Deprecations.Entries {
			named[entry.Reference] = true
		}
	}
	return named
}

// identifier joins names to the id of a node. A name comes from a catalog: what
// Mermaid could take for its own syntax becomes an underscore.
func identifier(names ...string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		default:
			return '_'
		}
	}, strings.Join(names, "-"))
}

var escaper = strings.NewReplacer(`"`, "#quot;", "\n", " ", "\r", " ")

// label quotes a text for Mermaid.
func label(text string) string { return `"` + escaper.Replace(text) + `"` }
