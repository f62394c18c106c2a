package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Style paints text for terminals, or leaves it as it is.
type Style struct{ Colour bool }

// StyleFor returns colours to a terminal whose user did not refuse them
// (https://no-color.org).
func StyleFor(w io.Writer) Style {
	return Style{Colour: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal reports whether what is written there is seen by a person at once.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// width returns the number of columns of a terminal.
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
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Dim    = "2"
)

// Paint returns a text a colour, where there are colours.
func (s Style) Paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Mark is the sign of a state.
func (s Style) Mark(state report.State) string {
	switch state {
	case report.StateDone:
		return s.Paint(Green, "✓")
	case report.StateCurrent:
		return s.Paint(Yellow, "●")
	case report.StateFailed:
		return s.Paint(Red, "✗")
	default:
		return s.Paint(Dim, "○")
	}
}

// NewProgress returns the display that fits where the progress is written: redrawn in
// place on a terminal, a line for each change elsewhere.
func NewProgress(w io.Writer) report.Progress {
	if IsTerminal(w) && os.Getenv("TERM") != "dumb" {
		return &liveProgress{w: w, style: StyleFor(w), columns: func() int { return width(w) }}
	}
	return &plainProgress{w: w, seen: map[string]string{}}
}

// NewSilentProgress returns a display for commands whose errors scripts read: progress on a
// terminal, and nothing but warnings elsewhere.
func NewSilentProgress(w io.Writer) report.Progress {
	if IsTerminal(w) {
		return NewProgress(w)
	}
	return &silentProgress{w: w}
}

// silentProgress writes warnings only.
type silentProgress struct {
	report.Quiet
	w io.Writer
}

// Warn writes a line.
func (p *silentProgress) Warn(message string) { fmt.Fprintln(p.w, "Warning: "+message) }

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
func (p *plainProgress) Parts(parts []report.Part) {
	for _, part := range parts {
		if part.State == report.StateWaiting {
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

func describePart(part report.Part) string {
	switch {
	case part.State == report.StateDone && part.Detail != "":
		return "done, " + part.Detail
	case part.State == report.StateDone:
		return "done"
	case part.State == report.StateFailed:
		return strings.TrimRight("failed, "+part.Detail, ", ")
	case part.Detail == "":
		return "begun"
	default:
		return part.Detail
	}
}

// liveProgress redraws the parts in place.
type liveProgress struct {
	w       io.Writer
	style   Style
	columns func() int
	parts   []report.Part
	drawn   int
}

// Done writes a line above the parts.
func (p *liveProgress) Done(message string) {
	p.above(p.style.Paint(Green, "✓") + " " + message)
}

// Warn writes a line above the parts.
func (p *liveProgress) Warn(message string) {
	p.above(p.style.Paint(Yellow, "Warning:") + " " + message)
}

func (p *liveProgress) above(line string) {
	p.clear()
	fmt.Fprintln(p.w, line)
	p.draw()
}

// Parts redraws the parts.
func (p *liveProgress) Parts(parts []report.Part) {
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
		b.WriteString(p.style.Mark(part.State) + " " + strings.TrimRight(text, " ") + "\n")
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
