package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// style paints text for terminals, or leaves it as it is.
type style struct{ colour bool }

// styleFor gives colours to a terminal whose user did not refuse them
// (https://no-color.org).
func styleFor(w io.Writer) style {
	return style{colour: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// width gives the number of columns of a terminal.
func width(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// Codes of colours (ECMA-48, select graphic rendition).
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

func (s style) paint(code, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// mark is the sign of a state.
func (s style) mark(state action.State) string {
	switch state {
	case action.StateDone:
		return s.paint(green, "✓")
	case action.StateCurrent:
		return s.paint(yellow, "●")
	default:
		return s.paint(dim, "○")
	}
}

// newProgress gives the display that fits where the progress is written: redrawn in
// place on a terminal, a line for each change elsewhere.
func newProgress(w io.Writer) action.Progress {
	if isTerminal(w) && os.Getenv("TERM") != "dumb" {
		return &liveProgress{w: w, style: styleFor(w), columns: func() int { return width(w) }}
	}
	return &plainProgress{w: w, seen: map[string]string{}}
}

// plainProgress writes a line whenever something changes, for pipes and logs.
type plainProgress struct {
	w    io.Writer
	seen map[string]string
}

// Done writes a line.
func (p *plainProgress) Done(message string) { fmt.Fprintln(p.w, message) }

// Warn writes a line.
func (p *plainProgress) Warn(message string) { fmt.Fprintln(p.w, "Warning: "+message) }

// Parts writes a line for each part that is not as it was. Parts that have not begun
// say nothing.
func (p *plainProgress) Parts(parts []action.Part) {
	for _, part := range parts {
		if part.State == action.StateWaiting {
			continue
		}
		line := part.Name + ": " + describePart(part)
		if p.seen[part.Name] == line {
			continue
		}
		p.seen[part.Name] = line
		fmt.Fprintln(p.w, line)
	}
}

func describePart(part action.Part) string {
	switch {
	case part.State == action.StateDone && part.Detail != "":
		return "done, " + part.Detail
	case part.State == action.StateDone:
		return "done"
	case part.Detail == "":
		return "begun"
	default:
		return part.Detail
	}
}

// liveProgress redraws the parts in place.
type liveProgress struct {
	w       io.Writer
	style   style
	columns func() int
	parts   []action.Part
	drawn   int
}

// Done writes a line above the parts.
func (p *liveProgress) Done(message string) {
	p.above(p.style.paint(green, "✓") + " " + message)
}

// Warn writes a line above the parts.
func (p *liveProgress) Warn(message string) {
	p.above(p.style.paint(yellow, "Warning:") + " " + message)
}

func (p *liveProgress) above(line string) {
	p.clear()
	fmt.Fprintln(p.w, line)
	p.draw()
}

// Parts redraws the parts.
func (p *liveProgress) Parts(parts []action.Part) {
	if slices.Equal(p.parts, parts) {
		return
	}
	p.parts = parts
	p.clear()
	p.draw()
}

// clear moves the cursor up to the first part and removes what stands below.
func (p *liveProgress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *liveProgress) draw() {
	longest := 0
	for _, part := range p.parts {
		longest = max(longest, len(part.Name))
	}
	var b strings.Builder
	for _, part := range p.parts {
		// A line must not be broken by the terminal: the count of lines would be wrong.
		text := cut(fmt.Sprintf("%-*s  %s", longest, part.Name, part.Detail), p.columns()-3)
		b.WriteString(p.style.mark(part.State) + " " + strings.TrimRight(text, " ") + "\n")
	}
	fmt.Fprint(p.w, b.String())
	p.drawn = len(p.parts)
}

// cut shortens a line to a number of characters.
func cut(text string, length int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	runes := []rune(text)
	if length < 1 || len(runes) <= length {
		return text
	}
	return string(runes[:length-1]) + "…"
}
