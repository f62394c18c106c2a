package upgradegraph

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Drawing is a graph and what of it is deprecated.
type Drawing struct {
	Graph *Graph
	// Deprecations of the package; nil when nothing is deprecated.
	Deprecations *fbc.Deprecations
}

const mermaidHeader = `graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
`

// WriteMermaid draws packages as a Mermaid flowchart, in the form that opm gives its
// users: a box per package and channel, both sorted by name; the entries by
// descending version; after each entry the edges that lead to it, from old to new.
// Deprecated packages, channels and bundles are coloured. The only errors are w's.
func WriteMermaid(w io.Writer, drawings ...Drawing) error {
	drawings = slices.Clone(drawings)
	slices.SortStableFunc(drawings, func(a, b Drawing) int { return strings.Compare(a.Graph.pkg, b.Graph.pkg) })
	var body, styles bytes.Buffer
	var deprecated []string
	body.WriteString(mermaidHeader)
	for _, d := range drawings {
		deprecated = append(deprecated, d.draw(&body, &styles)...)
	}
	body.Write(styles.Bytes())
	if len(deprecated) > 0 {
		slices.Sort(deprecated)
		fmt.Fprintf(&body, "class %s deprecated\n", strings.Join(deprecated, ","))
	}
	if _, err := body.WriteTo(w); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}
	return nil
}

// draw writes one package and gives the ids of its deprecated bundles.
func (d Drawing) draw(body, styles *bytes.Buffer) []string {
	g := d.Graph
	fmt.Fprintf(body, "  %%%% package %s\n  subgraph %s\n", label(g.pkg), label(g.pkg))
	if d.isDeprecated(fbc.SchemaPackage, "") {
		fmt.Fprintf(styles, "style %s fill:#989695\n", identifier(g.pkg))
	}
	var deprecated []string
	channels := slices.Clone(g.channels)
	slices.SortFunc(channels, func(a, b channel) int { return strings.Compare(a.name, b.name) })
	for _, ch := range channels {
		channelID := identifier(g.pkg, ch.name)
		fmt.Fprintf(body, "    %%%% channel %s\n    subgraph %s[%s]\n", label(ch.name), channelID, label(ch.name))
		if d.isDeprecated(fbc.SchemaChannel, ch.name) {
			fmt.Fprintf(styles, "style %s fill:#DCD0FF\n", channelID)
		}
		entries := slices.Clone(ch.entries)
		slices.SortStableFunc(entries, func(a, b fbc.ChannelEntry) int { return g.newerFirst(a.Name, b.Name) })
		for _, entry := range entries {
			g.drawEntry(body, ch, entry)
			if d.isDeprecated(fbc.SchemaBundle, entry.Name) {
				deprecated = append(deprecated, identifier(g.pkg, ch.name, entry.Name))
			}
		}
		body.WriteString("    end\n")
	}
	body.WriteString("  end\n")
	return deprecated
}

// drawEntry writes an entry and the edges that lead to it.
func (g *Graph) drawEntry(body *bytes.Buffer, ch channel, entry fbc.ChannelEntry) {
	node := func(name string) string {
		return identifier(g.pkg, ch.name, name) + "[" + label(name) + "]"
	}
	link := func(from, text string) {
		fmt.Fprintf(body, "      %s-- %s --> %s\n", node(from), text, node(entry.Name))
	}
	fmt.Fprintf(body, "      %s\n", node(entry.Name))
	for _, skip := range entry.Skips {
		link(skip, "skip")
	}
	if r := g.ranges[entry.SkipRange]; len(r.anyOf) > 0 {
		for _, older := range ch.entries {
			version, known := g.versions[older.Name]
			if known && older.Name != entry.Name && r.has(version) {
				link(older.Name, label("skipRange("+entry.SkipRange+")"))
			}
		}
	}
	if entry.Replaces != "" {
		link(entry.Replaces, "replace")
	}
}

// isDeprecated tells whether the package's deprecations name the thing.
func (d Drawing) isDeprecated(schema, name string) bool {
	return d.Deprecations != nil && slices.ContainsFunc(d.Deprecations.Entries, func(e fbc.DeprecationEntry) bool {
		return e.Reference.Schema == schema && e.Reference.Name == name
	})
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

// label quotes a text for Mermaid.
func label(text string) string {
	return `"` + strings.NewReplacer(`"`, "#quot;", "\n", " ", "\r", " ").Replace(text) + `"`
}
