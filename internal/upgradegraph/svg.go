package upgradegraph

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Dimensions of an SVG drawing, in pixels.
const (
	svgRow     = 30  // from one bundle to the next
	svgBox     = 22  // height of a bundle's box
	svgLetter  = 7.3 // width of a letter of 12 pixels, on the safe side
	svgMargin  = 16
	svgHeading = 34
	svgArc     = 90 // the widest that an arc reaches out of its column
)

const svgStyle = `<style>text{font:12px monospace;fill:#222}.h{font:bold 14px sans-serif}.n{font:11px sans-serif;fill:#666}` +
	`rect{fill:#eef3fb;stroke:#3b6fb6}.d rect{fill:#E8960F}.a rect{fill:#fff;stroke:#999;stroke-dasharray:4}` +
	`.l{fill:none;stroke:#ddd}.ld{fill:#DCD0FF;stroke:#ddd}path{fill:none;stroke:#3b6fb6;stroke-width:1.5}.s{stroke:#c33;stroke-dasharray:5}</style>` +
	`<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#444;stroke:none"/></marker></defs>`

// WriteSVG draws packages as an SVG image, with a column per channel and its bundles from the
// newest down. An arrow leads from each bundle to its updates. Arrows of skips are dashed and
// red. A skipRange is written next to its bundle, with the number of bundles of the channel in it,
// as drawing all its arrows would hide the others.
func WriteSVG(w io.Writer, drawings ...Drawing) error {
	all := buildChannelLanes(drawings)
	columns := make([]svgColumn, 0, len(all))
	width, height := svgMargin, 0
	for _, l := range all {
		c := newSVGColumn(l, width)
		columns = append(columns, c)
		width += c.width + svgMargin
		height = max(height, c.height)
	}

	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`,
		width, height+2*svgMargin, width, height+2*svgMargin)
	fmt.Fprint(b, "<title>Upgrade graph</title>"+svgStyle+"\n")
	for _, c := range columns {
		c.writeSVGColumn(b)
	}

	fmt.Fprint(b, "</svg>\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}

	return nil
}

// svgColumn is a channel with its position in the drawing.
type svgColumn struct {
	channelLane
	x, width, height int
	// box is the width of a bundle's box.
	box int
	row map[string]int
}

func newSVGColumn(l channelLane, x int) svgColumn {
	c := svgColumn{channelLane: l, x: x, row: map[string]int{}, box: 8 * svgMargin}
	note := 0
	for i, s := range l.stops {
		c.row[s.name] = i
		c.box = max(c.box, int(svgLetter*float64(len(s.name)))+2*svgMargin)
		note = max(note, int(svgLetter*float64(len(s.formatStopNote()))))
	}

	c.width = max(c.box+svgArc+note, int(9*float64(len(l.formatLaneTitle())))) + 2*svgMargin
	c.height = svgHeading + len(l.stops)*svgRow + svgMargin
	return c
}

func (c svgColumn) stopTopOffset(name string) int { return svgMargin + svgHeading + c.row[name]*svgRow }

func (c svgColumn) writeSVGColumn(b *bufio.Writer) {
	class := "l"
	if c.deprecated {
		class = "ld"
	}

	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`, class, c.x, svgMargin, c.width, c.height)
	fmt.Fprintf(b, `<text class="h" x="%d" y="%d">%s</text>`+"\n", c.x+svgMargin, svgMargin+22, escapeXMLText(c.formatLaneTitle()))
	for _, s := range c.stops {
		c.writeStopBox(b, s)
	}

	for _, edge := range c.edges {
		c.writeEdgeArc(b, edge)
	}
}

func (c svgColumn) writeStopBox(b *bufio.Writer, s laneStop) {
	class := ""
	switch {
	case s.deprecated:
		class = ` class="d"`
	case s.absent:
		class = ` class="a"`
	}

	y := c.stopTopOffset(s.name)
	fmt.Fprintf(b, `<g%s><rect x="%d" y="%d" width="%d" height="%d" rx="4"/><text x="%d" y="%d">%s</text></g>`,
		class, c.x+svgMargin, y, c.box, svgBox, c.x+svgMargin+8, y+15, escapeXMLText(s.name))
	if note := s.formatStopNote(); note != "" {
		fmt.Fprintf(b, `<text class="n" x="%d" y="%d">%s</text>`, c.x+svgMargin+c.box+svgArc, y+15, escapeXMLText(note))
	}

	fmt.Fprintln(b)
}

// writeEdgeArc draws an arc to the right of the boxes. Its width grows with the distance.
func (c svgColumn) writeEdgeArc(b *bufio.Writer, edge Edge) {
	if edge.Kind == KindSkipRange {
		return
	}

	class := ""
	if edge.Kind == KindSkips {
		class = ` class="s"`
	}

	x := c.x + svgMargin + c.box
	from, to := c.stopTopOffset(edge.From)+svgBox/2-3, c.stopTopOffset(edge.To)+svgBox/2+3
	reach := min(svgArc, 14+8*max(c.row[edge.From]-c.row[edge.To], c.row[edge.To]-c.row[edge.From]))
	fmt.Fprintf(b, `<path%s d="M%d %dC%d %d %d %d %d %d" marker-end="url(#to)"/>`+"\n", class, x, from, x+reach, from, x+reach, to, x+2, to)
}

// formatStopNote returns the text next to a bundle.
func (s laneStop) formatStopNote() string {
	switch {
	case s.absent:
		return "not in the channel"
	case s.skipRange == "":
		return ""
	}
	return fmt.Sprintf("updates %s (%d here)", s.skipRange, s.coveredCount)
}

func escapeXMLText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // Writing to a strings.Builder never fails.
	return b.String()
}
