package cincinnati

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// drawing is a graph to be drawn: nodes by descending version, and each update once.
type drawing struct {
	nodes []Node
	edges []drawingEdge
}

// drawingEdge is an update between two nodes of a drawing.
type drawingEdge struct {
	from, to int
	// conditional is true for an update with known issues, whose names are in risks.
	conditional bool
	risks       string
}

// newDrawing returns the sorted nodes and edges of a graph.
func newDrawing(g *Graph) drawing {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}

	g.sortNodesDescending(order)
	p := drawing{nodes: make([]Node, len(order))}
	place, byVersion := make([]int, len(order)), make(map[string]int, len(order))
	for at, i := range order {
		p.nodes[at] = g.Nodes[i]
		place[i] = at
		byVersion[g.Nodes[i].Version] = at
	}

	seen := map[[2]int]bool{}
	add := func(edge drawingEdge) {
		if key := [2]int{edge.from, edge.to}; !seen[key] {
			seen[key] = true
			p.edges = append(p.edges, edge)
		}
	}

	// An update in both edges and conditionalEdges is conditional.
	for _, entry := range g.ConditionalEdges {
		var names []string
		for _, risk := range entry.Risks {
			names = append(names, risk.Name)
		}
		for _, edge := range entry.Edges {
			from, okFrom := byVersion[edge.From]
			to, okTo := byVersion[edge.To]
			if okFrom && okTo {
				add(drawingEdge{from, to, true, strings.Join(names, ", ")})
			}
		}
	}

	for _, edge := range g.Edges {
		add(drawingEdge{from: place[edge.From], to: place[edge.To]})
	}

	slices.SortFunc(p.edges, func(a, b drawingEdge) int {
		if a.from != b.from {
			return b.from - a.from
		}
		return b.to - a.to
	})

	return p
}

// ReachableFrom returns the part of the graph that is reachable from a version by any number of updates,
// with and without known issues. It returns a *NotFoundError if the graph does not have the
// version.
func (g *Graph) ReachableFrom(version string) (*Graph, error) {
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

	return selectNodes(g, keep, byVersion), nil
}

// selectNodes returns the subgraph of the nodes whose index is true in keep.
func selectNodes(g *Graph, keep []bool, byVersion map[string]int) *Graph {
	part := &Graph{Version: g.Version}
	place := make([]int, len(g.Nodes))
	for i, node := range g.Nodes {
		if keep[i] {
			place[i] = len(part.Nodes)
			part.Nodes = append(part.Nodes, node)
			part.versions = append(part.versions, g.versions[i])
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

// WriteMermaid writes the graph as a Mermaid flowchart. Nodes are sorted by descending version.
// Arrows of updates with known issues are dotted and labeled.
func (g *Graph) WriteMermaid(w io.Writer) error {
	p := newDrawing(g)
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "graph LR\n")
	for i, node := range p.nodes {
		fmt.Fprintf(b, "  n%d[\"%s\"]\n", i, escapeMermaid(node.Version))
	}

	for _, edge := range p.edges {
		if !edge.conditional {
			fmt.Fprintf(b, "  n%d --> n%d\n", edge.from, edge.to)
		} else {
			fmt.Fprintf(b, "  n%d -. \"%s\" .-> n%d\n", edge.from, escapeMermaid(edge.risks), edge.to)
		}
	}

	return flushDrawing(b)
}

// escapeMermaid escapes the characters that would end a quoted text or be interpreted as markup.
func escapeMermaid(text string) string {
	var b strings.Builder
	for _, r := range excerpt.Line(text, maxQuotedBytes) {
		if strings.ContainsRune("\"<>&#`\\", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}

	return b.String()
}

// WriteDOT writes the graph in the DOT language of Graphviz. Updates with known issues are
// dashed and labeled.
func (g *Graph) WriteDOT(w io.Writer) error {
	p := newDrawing(g)
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "digraph updates {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for _, node := range p.nodes {
		fmt.Fprintf(b, "  %s;\n", quoteDOTString(node.Version))
	}

	for _, edge := range p.edges {
		style := ""
		if edge.conditional {
			style = " [style=dashed, color=\"#cc3333\", label=" + quoteDOTString(edge.risks) + "]"
		}
		fmt.Fprintf(b, "  %s -> %s%s;\n", quoteDOTString(p.nodes[edge.from].Version), quoteDOTString(p.nodes[edge.to].Version), style)
	}

	fmt.Fprint(b, "}\n")
	return flushDrawing(b)
}

func quoteDOTString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(excerpt.Line(text, maxQuotedBytes)) + `"`
}

// Dimensions of an SVG drawing, in pixels.
const (
	svgRowHeight   = 30  // distance between two releases
	svgBoxHeight   = 22  // height of a release's box
	svgLetterWidth = 7.3 // upper bound of the width of a letter in a 12-pixel font
	svgMargin      = 16
	svgMaxArc      = 220 // maximum width of an arc
)

const svgStyle = `<style>text{font:12px monospace;fill:#222}rect{fill:#eef3fb;stroke:#3b6fb6}` +
	`path{fill:none;stroke:#3b6fb6;stroke-width:1.5}.c{stroke:#cc3333;stroke-dasharray:5}</style>` +
	`<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#444;stroke:none"/></marker></defs>`

// WriteSVG writes the graph as an SVG image: a column of releases by descending version, and an
// arrow for each update. Arrows of updates with known issues are red and dashed, with the names
// of the issues as their tooltip.
func (g *Graph) WriteSVG(w io.Writer) error {
	p := newDrawing(g)
	box := 8 * svgMargin
	for _, node := range p.nodes {
		box = max(box, int(svgLetterWidth*float64(len(excerpt.Line(node.Version, maxQuotedBytes))))+2*svgMargin)
	}

	width, height := box+svgMaxArc+2*svgMargin, len(p.nodes)*svgRowHeight+2*svgMargin
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"><title>Update graph</title>`+svgStyle+"\n",
		width, height, width, height)
	top := func(i int) int { return svgMargin + i*svgRowHeight }
	for i, node := range p.nodes {
		fmt.Fprintf(b, `<g><rect x="%d" y="%d" width="%d" height="%d" rx="4"/><text x="%d" y="%d">%s</text></g>`+"\n",
			svgMargin, top(i), box, svgBoxHeight, svgMargin+8, top(i)+15, escapeXML(node.Version))
	}

	for _, edge := range p.edges {
		class, title := "", p.nodes[edge.from].Version+" to "+p.nodes[edge.to].Version
		if edge.conditional {
			class, title = ` class="c"`, title+": "+edge.risks
		}

		x, from, to := svgMargin+box, top(edge.from)+svgBoxHeight/2-3, top(edge.to)+svgBoxHeight/2+3
		reach := min(svgMaxArc, 14+8*max(edge.from-edge.to, edge.to-edge.from))
		fmt.Fprintf(b, `<path%s d="M%d %dC%d %d %d %d %d %d" marker-end="url(#to)"><title>%s</title></path>`+"\n",
			class, x, from, x+reach, from, x+reach, to, x+2, to, escapeXML(title))
	}

	fmt.Fprint(b, "</svg>\n")
	return flushDrawing(b)
}

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(excerpt.Line(text, maxQuotedBytes))) // writes to a strings.Builder do not fail
	return b.String()
}

func flushDrawing(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}
	return nil
}

// Overview is a release and its updates.
type Overview struct {
	Node
	// Updates and Conditional are the target versions without and with known issues, by
	// descending version.
	Updates, Conditional []string
}

// Overview returns each release with its updates, by descending version.
func (g *Graph) Overview() []Overview {
	p := newDrawing(g)
	all := make([]Overview, len(p.nodes))
	for i, node := range p.nodes {
		all[i].Node = node
	}

	// The edges of a drawing are sorted by ascending target version.
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
