package yamltext

import "unicode/utf8"

// lineWriter writes indented lines and the tokens in them. The separator before a token, a line break or
// a blank, depends on the token before it.
type lineWriter struct {
	out []byte
	// lineStart is the start of the last line in out.
	lineStart int
	// indent is the column at which lines begin, -1 before the first line.
	indent int
	// atIndentation is set while the line has only blanks and indicators. afterBlank is set
	// if no blank is needed before the next token.
	atIndentation, afterBlank bool
}

// startIndentedLine moves to the start of a line at the current indentation, unless it is there
// already.
func (w *lineWriter) startIndentedLine() {
	indent := max(0, w.indent)
	column := w.currentColumn()
	if !w.atIndentation || column > indent || column == indent && !w.afterBlank {
		w.emitLineBreak()
		column = 0
	}

	w.appendIndentation(indent - column)
	w.atIndentation, w.afterBlank = true, true
}

func (w *lineWriter) emitLineBreak() {
	w.out = append(w.out, '\n')
	w.lineStart = len(w.out)
}

const blankText = "                                                                "

func (w *lineWriter) appendIndentation(n int) {
	for ; n > len(blankText); n -= len(blankText) {
		w.out = append(w.out, blankText...)
	}
	if n > 0 {
		w.out = append(w.out, blankText[:n]...)
	}
}

// currentColumn returns the number of characters of the current line.
func (w *lineWriter) currentColumn() int { return utf8.RuneCount(w.out[w.lineStart:]) }

// emitIndicator writes an indicator, or the two of an empty object or list, which complete the
// value.
func (w *lineWriter) emitIndicator(mark string) {
	w.emitSeparator()
	w.out = append(w.out, mark...)
	w.afterBlank = false
	w.atIndentation = w.atIndentation && len(mark) == 1
}

// emitSeparator writes a blank if the next token needs one.
func (w *lineWriter) emitSeparator() {
	if !w.afterBlank {
		w.out = append(w.out, ' ')
	}
}

// emitUnquoted writes a scalar that needs no quotes.
func (w *lineWriter) emitUnquoted(text []byte) {
	w.emitSeparator()
	w.out = append(w.out, text...)
	w.afterBlank, w.atIndentation = false, false
}
