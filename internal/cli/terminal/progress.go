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

// Style paints text for terminals. Without Colour, it returns text unchanged.
type Style struct{ Colour bool }

// StyleFor returns a style with colours if w is a terminal and the user did not disable colours
// (https://no-color.org).
func StyleFor(w io.Writer) Style {
	return Style{Colour: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalWidth returns the number of columns of a terminal.
func terminalWidth(w io.Writer) int {
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

// Paint returns the text in a colour, or the text itself if the style has no colours.
func (s Style) Paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Mark returns the symbol of a state.
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

// NewProgress returns a progress display: redrawn in place on a terminal, a line for each change
// otherwise.
func NewProgress(w io.Writer) report.Progress {
	if IsTerminal(w) && os.Getenv("TERM") != "dumb" {
		return &liveProgress{w: w, style: StyleFor(w), columns: func() int { return terminalWidth(w) }}
	}
	return &plainProgress{w: w, lastLines: map[string]string{}}
}

// NewSilentProgress returns a progress display for commands whose standard error scripts read:
// progress on a terminal, only warnings otherwise.
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

// plainProgress writes a line for each change, for pipes and logs.
type plainProgress struct {
	w         io.Writer
	lastLines map[string]string
}

// Done writes a line.
func (p *plainProgress) Done(message string) { fmt.Fprintln(p.w, message) }

// Warn writes a line.
func (p *plainProgress) Warn(message string) { fmt.Fprintln(p.w, "Warning: "+message) }

// Parts writes a line for each part that changed. Parts that have not started are skipped.
func (p *plainProgress) Parts(parts []report.Part) {
	for _, part := range parts {
		if part.State == report.StateWaiting {
			continue
		}

		line := part.Name + ": " + formatPart(part)
		if p.lastLines[part.Name] == line {
			continue
		}

		p.lastLines[part.Name] = line
		fmt.Fprintln(p.w, line)
	}
}

func formatPart(part report.Part) string {
	switch {
	case part.State == report.StateDone && part.Detail != "":
		return "done, " + part.Detail
	case part.State == report.StateDone:
		return "done"
	case part.State == report.StateFailed:
		return strings.TrimRight("failed, "+part.Detail, ", ")
	case part.Detail == "":
		return "started"
	default:
		return part.Detail
	}
}

// liveProgress redraws the parts in place.
type liveProgress struct {
	w          io.Writer
	style      Style
	columns    func() int
	parts      []report.Part
	drawnLines int
}

// Done writes a line above the parts.
func (p *liveProgress) Done(message string) {
	p.printAboveParts(p.style.Paint(Green, "✓") + " " + message)
}

// Warn writes a line above the parts.
func (p *liveProgress) Warn(message string) {
	p.printAboveParts(p.style.Paint(Yellow, "Warning:") + " " + message)
}

func (p *liveProgress) printAboveParts(line string) {
	p.eraseParts()
	fmt.Fprintln(p.w, line)
	p.drawParts()
}

// Parts redraws the parts.
func (p *liveProgress) Parts(parts []report.Part) {
	if slices.Equal(p.parts, parts) {
		return
	}
	p.parts = parts
	p.eraseParts()
	p.drawParts()
}

// eraseParts moves the cursor up to the first part and clears the screen below it.
func (p *liveProgress) eraseParts() {
	if p.drawnLines > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\x1b[J", p.drawnLines)
		p.drawnLines = 0
	}
}

func (p *liveProgress) drawParts() {
	longest := 0
	for _, part := range p.parts {
		longest = max(longest, len(part.Name))
	}

	var b strings.Builder
	for _, part := range p.parts {
		// The terminal must not wrap a line: the number of drawn lines would be wrong.
		text := truncateLine(fmt.Sprintf("%-*s  %s", longest, part.Name, part.Detail), p.columns()-3)
		b.WriteString(p.style.Mark(part.State) + " " + strings.TrimRight(text, " ") + "\n")
	}

	fmt.Fprint(p.w, b.String())
	p.drawnLines = len(p.parts)
}

// truncateLine replaces line breaks by spaces and shortens the text to length characters.
func truncateLine(text string, length int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	runes := []rune(text)
	if length < 1 || len(runes) <= length {
		return text
	}
	return string(runes[:length-1]) + "…"
}
