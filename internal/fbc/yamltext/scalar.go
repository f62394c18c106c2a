package yamltext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// Text is searched eight bytes at a time.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x80 * lowBits
)

// textTraits are the properties of a non-empty text that decide how it can be written.
type textTraits struct {
	// hasNewline is set for line feeds, hasOtherBreaks for other line breaks, and isASCII if
	// all characters are ASCII.
	hasNewline, hasOtherBreaks, isASCII bool
	// allowsPlain, allowsSingleQuoted and allowsLiteral are set if the text can be written
	// without quotes, in single quotes and as a literal block.
	allowsPlain, allowsSingleQuoted, allowsLiteral bool
}

func analyzeTextTraits(text []byte) textTraits {
	last := text[len(text)-1]
	s := textTraits{isASCII: true, allowsPlain: startsAsPlain(text) && last != ' ', allowsSingleQuoted: true, allowsLiteral: last != ' '}
	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := markAnalyzed(binary.LittleEndian.Uint64(text[i : i+8]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) >> 3
		}
		size := 1
		switch b := text[i]; {
		case b == ':':
			s.allowsPlain = s.allowsPlain && i+1 < len(text) && text[i+1] != ' '
		case b == '#':
			s.allowsPlain = s.allowsPlain && (i == 0 || text[i-1] != ' ')
		case b == '\n':
			s.hasNewline = true
			s.markLineBreak(text, i, 1)
		case b < ' ' || b == 0x7f:
			s.markNeedsEscape()
		case b >= utf8.RuneSelf:
			size = s.markCharacter(text, i)
		}
		i += size
	}

	return s
}

// startsAsPlain reports whether a text begins like a plain scalar.
func startsAsPlain(text []byte) bool {
	switch text[0] {
	case ' ', '#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	case '?', '-':
		if len(text) == 1 || text[1] == ' ' {
			return false
		}
	}

	return !bytes.HasPrefix(text, []byte("---")) && !bytes.HasPrefix(text, []byte("..."))
}

// markNeedsEscape records a character that has to be escaped.
func (s *textTraits) markNeedsEscape() {
	s.allowsPlain, s.allowsSingleQuoted, s.allowsLiteral = false, false, false
}

// markLineBreak records a line break of a size at an index.
func (s *textTraits) markLineBreak(text []byte, i, size int) {
	s.allowsPlain = false
	if i > 0 && text[i-1] == ' ' {
		s.markNeedsEscape()
	}
	if i+size < len(text) && text[i+size] == ' ' {
		s.allowsSingleQuoted = false
	}
}

// markCharacter records the non-ASCII character at an index and returns its size.
func (s *textTraits) markCharacter(text []byte, i int) int {
	s.isASCII = false
	r, size := utf8.DecodeRune(text[i:])
	switch {
	case r == '\u2028' || r == '\u2029':
		s.hasOtherBreaks = true
		s.markLineBreak(text, i, size)
	case !isPrintable(r):
		s.markNeedsEscape()
	}

	return size
}

// isPrintable reports whether a non-ASCII character needs no escape.
func isPrintable(r rune) bool {
	return r >= 0xa0 && r < 0xfffe && r != 0xfeff
}

// markAnalyzed marks the bytes of a word that analyzeTextTraits has to examine.
func markAnalyzed(w uint64) uint64 {
	colons := (w ^ ':'*lowBits) - lowBits
	hashes := (w ^ '#'*lowBits) - lowBits
	controls := w - ' '*lowBits
	// Adding one sets the high bit of 0x7f.
	return (colons | hashes | controls | w | (w + lowBits)) & highBits
}

// markUncommon marks the bytes of a word that isSupportedText has to examine.
func markUncommon(w uint64) uint64 { return (w - ' '*lowBits | w | (w + lowBits)) & highBits }

// emitString writes a JSON string. A key on one line is never folded.
func (e *emitter) emitString(quoted []byte, key bool) {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		e.text = jsontext.AppendUnquoted(e.text[:0], quoted)
		text = e.text
	}
	if len(text) == 0 {
		e.emitUnquoted([]byte(`""`))
		return
	}

	switch s := analyzeTextTraits(text); {
	case s.hasNewline && s.allowsLiteral && !key:
		e.emitLiteralBlock(text, s)
	case s.hasNewline || isAmbiguousPlain(text) || !s.allowsPlain && !s.allowsSingleQuoted:
		e.emitDoubleQuoted(text, key)
	case s.allowsPlain:
		e.emitPlainScalar(text, s, key)
	default:
		e.emitSingleQuoted(text, key)
	}
}

func (w *lineWriter) emitPlainScalar(text []byte, s textTraits, key bool) {
	w.emitSeparator()
	if column := w.currentColumn(); !key && column+len(text) > foldWidth {
		// Fold at blanks between two words.
		for {
			at := findFoldPosition(text, s, column)
			if at < 0 {
				break
			}

			w.out = append(w.out, text[:at]...)
			column = w.foldToNextLine()
			text = text[at+1:]
		}
	}

	w.out = append(w.out, text...)
	w.afterBlank, w.atIndentation = false, false
}

// findFoldPosition returns the index of the first blank between two words after the fold width,
// or -1 if there is none. The text begins at the given column.
func findFoldPosition(text []byte, s textTraits, column int) int {
	from := max(0, foldWidth+1-column)
	if !s.isASCII {
		from = skipCharacters(text, from)
	}

	for i := max(from, 1); i+1 < len(text); i++ {
		blank := bytes.IndexByte(text[i:len(text)-1], ' ')
		if blank < 0 {
			return -1
		}
		if i += blank; text[i-1] != ' ' && text[i+1] != ' ' {
			return i
		}
	}

	return -1
}

// skipCharacters returns the index after n characters.
func skipCharacters(text []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(text); n-- {
		_, size := utf8.DecodeRune(text[i:])
		i += size
	}
	return i
}

// foldToNextLine begins the next line of a text and returns its column.
func (w *lineWriter) foldToNextLine() int {
	w.emitLineBreak()
	w.appendIndentation(w.continuationIndent())
	return w.continuationIndent()
}

// continuationIndent returns the column at which the further lines of a text begin.
func (w *lineWriter) continuationIndent() int { return max(0, w.indent) + indentStep }

func (w *lineWriter) emitSingleQuoted(text []byte, key bool) {
	w.emitSeparator()
	w.out = append(w.out, '\'')
	column := w.currentColumn()
	broken := false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		isSpace := r == ' '
		switch {
		case isSpace && !key && column > foldWidth && i > 0 && text[i-1] != ' ' && i+1 < len(text) && text[i+1] != ' ':
			column = w.foldToNextLine()
			i++
			continue
		case broken && !isSpace && r != '\u2028' && r != '\u2029':
			w.appendIndentation(w.continuationIndent())
			column, broken = w.continuationIndent(), false
		}

		if r == '\'' {
			w.out = append(w.out, '\'')
			column++
		}

		w.out = append(w.out, text[i:i+size]...)
		if column++; r == '\u2028' || r == '\u2029' {
			broken, column = true, 0
		}

		i += size
	}

	w.out = append(w.out, '\'')
	w.afterBlank, w.atIndentation = false, false
}

func (w *lineWriter) emitDoubleQuoted(text []byte, key bool) {
	const byteOrderMark = "\ufeff"
	all := bytes.HasPrefix(text, []byte(byteOrderMark))
	w.emitSeparator()
	w.out = append(w.out, '"')
	column := w.currentColumn()
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case all, needsDoubleQuotedEscape(r):
			before := len(w.out)
			w.out = appendEscape(w.out, r)
			column += len(w.out) - before
		case r == ' ' && !key && column > foldWidth && i > 0 && text[i-1] != ' ' && i+1 < len(text):
			column = w.foldToNextLine()
			if text[i+1] == ' ' {
				w.out = append(w.out, '\\')
				column++
			}
		default:
			w.out = append(w.out, text[i:i+size]...)
			column++
		}
		i += size
	}

	w.out = append(w.out, '"')
	w.afterBlank, w.atIndentation = false, false
}

// needsDoubleQuotedEscape reports whether a character must be escaped in double quotes.
func needsDoubleQuotedEscape(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '"' || r == '\\' || r == 0x7f
	}
	return !isPrintable(r) || r == '\u2028' || r == '\u2029'
}

// shortEscapes are the characters with an escape of one letter.
var shortEscapes = map[rune]byte{
	0: '0', 7: 'a', 8: 'b', 9: 't', 10: 'n', 11: 'v', 12: 'f', 13: 'r', 27: 'e',
	'"': '"', '\\': '\\', 0x85: 'N', 0xa0: '_', 0x2028: 'L', 0x2029: 'P',
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789ABCDEF"
	out = append(out, '\\')
	if letter, ok := shortEscapes[r]; ok {
		return append(out, letter)
	}

	digits := 8
	switch {
	case r <= 0xff:
		out, digits = append(out, 'x'), 2
	case r <= 0xffff:
		out, digits = append(out, 'u'), 4
	default:
		out = append(out, 'U')
	}

	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		out = append(out, hex[r>>shift&15])
	}

	return out
}

// emitLiteralBlock writes a text as a literal block.
func (w *lineWriter) emitLiteralBlock(text []byte, s textTraits) {
	w.emitIndicator("|")
	if text[0] == ' ' || lineBreakSize(text, 0) > 0 {
		w.out = append(w.out, '0'+indentStep)
	}

	rest, ends := trimLineBreak(text)
	if _, twice := trimLineBreak(rest); !ends {
		w.out = append(w.out, '-')
	} else if twice || len(rest) == 0 {
		w.out = append(w.out, '+')
	}

	w.emitLineBreak()
	indent := w.continuationIndent()
	for len(text) > 0 {
		end, size := findLineBreak(text, s)
		if end > 0 {
			w.appendIndentation(indent)
			w.out = append(w.out, text[:end]...)
		}

		w.out = append(w.out, text[end:end+size]...)
		if size > 0 {
			w.lineStart = len(w.out)
		}

		text = text[end+size:]
	}

	w.afterBlank, w.atIndentation = true, ends
}

// findLineBreak returns the index and size of the next line break. At the end of the text the
// size is 0.
func findLineBreak(text []byte, s textTraits) (i, size int) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		end = len(text)
	}

	if s.hasOtherBreaks {
		for i := range text[:end] {
			if size := lineBreakSize(text, i); size > 0 {
				return i, size
			}
		}
	}

	return end, min(1, len(text)-end)
}

// lineBreakSize returns the size of the line break at an index, or 0.
func lineBreakSize(text []byte, i int) int {
	switch {
	case text[i] == '\n':
		return 1
	case bytes.HasPrefix(text[i:], []byte("\u2028")), bytes.HasPrefix(text[i:], []byte("\u2029")):
		return 3
	}
	return 0
}

// trimLineBreak removes a trailing line break and reports whether there was one.
func trimLineBreak(text []byte) ([]byte, bool) {
	for _, mark := range []string{"\n", "\u2028", "\u2029"} {
		if rest, ok := bytes.CutSuffix(text, []byte(mark)); ok {
			return rest, true
		}
	}
	return text, false
}

// hasLineBreak reports whether a text has a line break of any kind.
func hasLineBreak(text []byte) bool {
	return bytes.ContainsAny(text, "\n\r\u0085\u2028\u2029")
}
