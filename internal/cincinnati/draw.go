package cincinnati

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

// picture is a graph as it is drawn: by descending version, with every update once.
type picture struct {
	nodes []Node
	edges []pictured
}

// pictured is an update between two nodes of a picture.
type pictured struct {
	from, to int
	// conditional says that issues are known, and risks names them.
	conditional bool
	risks       string
}

// picture sorts what is drawn.
func (g *Graph) picture() picture {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}

	g.descending(order)
	p := picture{nodes: make([]Node, len(order))}
	place, byVersion := make([]int, len(order)), make(map[string]int, len(order))
	for at, i := range order {
		p.nodes[at], place[i], byVersion[g.Nodes[i].Version] = g.Nodes[i], at, at
	}

	seen := map[[2]int]bool{}
	add := func(edge pictured) {
		if key := [2]int{edge.from, edge.to}; !seen[key] {
			seen[key] = true
			p.edges = append(p.edges, edge)
		}
	}

	// A target that stands both in edges and in conditionalEdges is conditional.
	for _, entry := range g.ConditionalEdges {
		var names []string
		for _, risk := range entry.Risks {
			names = append(names, risk.Name)
		}
		for _, edge := range entry.Edges {
			from, okFrom := byVersion[edge.From]
			to, okTo := byVersion[edge.To]
			if okFrom && okTo {
				add(pictured{from, to, true, strings.Join(names, ", ")})
			}
		}
	}

	for _, edge := range g.Edges {
		add(pictured{from: place[edge.From], to: place[edge.To]})
	}

	slices.SortFunc(p.edges, func(a, b pictured) int {
		if a.from != b.from {
			return b.from - a.from
		}
		return b.to - a.to
	})

	return p
}

// Below returns the part of the graph that a cluster of a version can come to, over as many
// updates as it takes, with and without known issues. It is a *NotFoundError when the graph
// does not have the version.
func (g *Graph) Below(version string) (*Graph, error) {
	byVersion := make(map[string]int, len(g.Nodes))
	for i, node := range g.Nodes {
		byVersion[node.Version] = i
	}

	start, ok := byVersion[version]
	if !ok {
		return nil, &NotFoundError{Version: version}
	}

	next := make([][]int, len(g.Nodes))
	for _, edge := range g.Edges {
		next[edge.From] = append(next[edge.From], edge.To)
	}

	for _, entry := range g.ConditionalEdges {
		for _, edge := range entry.Edges {
			from, okFrom := byVersion[edge.From]
			to, okTo := byVersion[edge.To]
			if okFrom && okTo {
				next[from] = append(next[from], to)
			}
		}
	}

	keep := make([]bool, len(g.Nodes))
	keep[start] = true
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, to := range next[queue[0]] {
			if !keep[to] {
				keep[to] = true
				queue = append(queue, to)
			}
		}
	}

	return g.only(keep, byVersion), nil
}

// only returns the part of a graph with some of its nodes.
func (g *Graph) only(keep []bool, byVersion map[string]int) *Graph {
	part := &Graph{Version: g.Version}
	place := make([]int, len(g.Nodes))
	for i, node := range g.Nodes {
		if keep[i] {
			place[i] = len(part.Nodes)
			part.Nodes, part.versions = append(part.Nodes, node), append(part.versions, g.versions[i])
		}
	}

	for _, edge := range g.Edges {
		if keep[edge.From] && keep[edge.To] {
			part.Edges = append(part.Edges, Edge{place[edge.From], place[edge.To]})
		}
	}

	for _, entry := range g.ConditionalEdges {
		left := ConditionalEdges{Risks: entry.Risks}
		for _, edge := range entry.Edges {
			from, okFrom := byVersion[edge.From]
			to, okTo := byVersion[edge.To]
			if okFrom && okTo && keep[from] && keep[to] {
				left.Edges = append(left.Edges, edge)
			}
		}
		if len(left.Edges) > 0 {
			part.ConditionalEdges = append(part.ConditionalEdges, left)
		}
	}

	return part
}

// WriteMermaid draws the graph as a Mermaid flowchart: a node for each release, the highest
// version first, and an arrow for each update, dotted and named where issues are known.
func (g *Graph) WriteMermaid(w io.Writer) error {
	p := g.picture()
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "graph LR\n")
	for i, node := range p.nodes {
		fmt.Fprintf(b, "  n%d[\"%s\"]\n", i, mermaidText(node.Version))
	}

	for _, edge := range p.edges {
		if !edge.conditional {
			fmt.Fprintf(b, "  n%d --> n%d\n", edge.from, edge.to)
		} else {
			fmt.Fprintf(b, "  n%d -. \"%s\" .-> n%d\n", edge.from, mermaidText(edge.risks), edge.to)
		}
	}

	return flush(b)
}

// mermaidText writes a text that stands in quotes: what could end it, or be read as markup,
// by its number.
func mermaidText(text string) string {
	var b strings.Builder
	for _, r := range abbreviate(text) {
		if strings.ContainsRune("\"<>&#`\\", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}

	return b.String()
}

// WriteDOT draws the graph in the language of Graphviz. Updates with known issues are
// dashed and named.
func (g *Graph) WriteDOT(w io.Writer) error {
	p := g.picture()
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "digraph updates {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for _, node := range p.nodes {
		fmt.Fprintf(b, "  %s;\n", quoteDOT(node.Version))
	}

	for _, edge := range p.edges {
		style := ""
		if edge.conditional {
			style = " [style=dashed, color=\"#cc3333\", label=" + quoteDOT(edge.risks) + "]"
		}
		fmt.Fprintf(b, "  %s -> %s%s;\n", quoteDOT(p.nodes[edge.from].Version), quoteDOT(p.nodes[edge.to].Version), style)
	}

	fmt.Fprint(b, "}\n")
	return flush(b)
}

func quoteDOT(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(abbreviate(text)) + `"`
}

// Measures of an SVG drawing, in pixels.
const (
	svgRow    = 30  // from one release to the next
	svgBox    = 22  // height of a release's box
	svgLetter = 7.3 // width of a letter of 12 pixels, on the safe side
	svgMargin = 16
	svgArc    = 220 // the widest that an arc reaches out of its column
)

const svgStyle = `<style>text{font:12px monospace;fill:#222}rect{fill:#eef3fb;stroke:#3b6fb6}` +
	`path{fill:none;stroke:#3b6fb6;stroke-width:1.5}.c{stroke:#cc3333;stroke-dasharray:5}</style>` +
	`<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#444;stroke:none"/></marker></defs>`

// WriteSVG draws the graph as a picture that a browser shows: a column of releases, the
// highest version at the top, and an arrow for each update, red and dashed where issues are
// known: their names show when one points at it.
func (g *Graph) WriteSVG(w io.Writer) error {
	p := g.picture()
	box := 8 * svgMargin
	for _, node := range p.nodes {
		box = max(box, int(svgLetter*float64(len(abbreviate(node.Version))))+2*svgMargin)
	}

	width, height := box+svgArc+2*svgMargin, len(p.nodes)*svgRow+2*svgMargin
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"><title>Update graph</title>`+svgStyle+"\n",
		width, height, width, height)
	top := func(i int) int { return svgMargin + i*svgRow }
	for i, node := range p.nodes {
		fmt.Fprintf(b, `<g><rect x="%d" y="%d" width="%d" height="%d" rx="4"/><text x="%d" y="%d">%s</text></g>`+"\n",
			svgMargin, top(i), box, svgBox, svgMargin+8, top(i)+15, escapeXML(node.Version))
	}

	for _, edge := range p.edges {
		class, title := "", p.nodes[edge.from].Version+" to "+p.nodes[edge.to].Version
		if edge.conditional {
			class, title = ` class="c"`, title+": "+edge.risks
		}

		x, from, to := svgMargin+box, top(edge.from)+svgBox/2-3, top(edge.to)+svgBox/2+3
		reach := min(svgArc, 14+8*max(edge.from-edge.to, edge.to-edge.from))
		fmt.Fprintf(b, `<path%s d="M%d %dC%d %d %d %d %d %d" marker-end="url(#to)"><title>%s</title></path>`+"\n",
			class, x, from, x+reach, from, x+reach, to, x+2, to, escapeXML(title))
	}

	fmt.Fprint(b, "</svg>\n")
	return flush(b)
}

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(abbreviate(text))) // a strings.Builder takes everything
	return b.String()
}

func flush(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}
	return nil
}

// Overview is a release and the updates that leave it.
type Overview struct {
	Node
	// Updates and Conditional are the versions that it can be updated to, without and with
	// known issues, the highest first.
	Updates, Conditional []string
}

// Overview tells of each release, the highest version first, where it can be updated to.
func (g *Graph) Overview() []Overview {
	p := g.picture()
	all := make([]Overview, len(p.nodes))
	for i, node := range p.nodes {
		all[i].Node = node
	}

	// The edges of a picture lead to the lowest version first.
	for _, edge := range slices.Backward(p.edges) {
		from := &all[edge.from]
		if !edge.conditional {
			from.Updates = append(from.Updates, p.nodes[edge.to].Version)
		} else {
			from.Conditional = append(from.Conditional, p.nodes[edge.to].Version)
		}
	}

	return all
}
