package yamltext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// Eight bytes are looked at at a time.
const (
	ones = 0x0101010101010101
	high = 0x80 * ones
)

// shape is what a text that is not empty can be written as.
type shape struct {
	// newline says that it has one, breaks that it has other line breaks, and ascii that
	// it has no characters but those of ASCII.
	newline, breaks, ascii bool
	// plain, single and block say whether it can stand without quotes, in single quotes
	// and as a literal block.
	plain, single, block bool
}

func shapeOf(text []byte) shape {
	last := text[len(text)-1]
	s := shape{ascii: true, plain: plainStart(text) && last != ' ', single: true, block: last != ' '}
	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := marked(binary.LittleEndian.Uint64(text[i : i+8]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) >> 3
		}
		size := 1
		switch b := text[i]; {
		case b == ':':
			s.plain = s.plain && i+1 < len(text) && text[i+1] != ' '
		case b == '#':
			s.plain = s.plain && (i == 0 || text[i-1] != ' ')
		case b == '\n':
			s.newline = true
			s.lineBreak(text, i, 1)
		case b < ' ' || b == 0x7f:
			s.special()
		case b >= utf8.RuneSelf:
			size = s.character(text, i)
		}
		i += size
	}

	return s
}

// plainStart reports whether a text begins as one that can stand without quotes.
func plainStart(text []byte) bool {
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

// special notes a character that has to be escaped.
func (s *shape) special() { s.plain, s.single, s.block = false, false, false }

// lineBreak notes a line break of a size at an index.
func (s *shape) lineBreak(text []byte, i, size int) {
	s.plain = false
	if i > 0 && text[i-1] == ' ' {
		s.special()
	}
	if i+size < len(text) && text[i+size] == ' ' {
		s.single = false
	}
}

// character notes the character beyond ASCII at an index and gives its size.
func (s *shape) character(text []byte, i int) int {
	s.ascii = false
	r, size := utf8.DecodeRune(text[i:])
	switch {
	case r == '\u2028' || r == '\u2029':
		s.breaks = true
		s.lineBreak(text, i, size)
	case !isPrintable(r):
		s.special()
	}

	return size
}

// isPrintable reports whether a character beyond ASCII needs no escape.
func isPrintable(r rune) bool {
	return r >= 0xa0 && r < 0xfffe && r != 0xfeff
}

// marked marks the bytes of a word that shapeOf looks at.
func marked(w uint64) uint64 {
	colons := (w ^ ':'*ones) - ones
	hashes := (w ^ '#'*ones) - ones
	controls := w - ' '*ones
	// Adding one sets the high bit of 0x7f.
	return (colons | hashes | controls | w | (w + ones)) & high
}

// uncommon marks the bytes of a word that isClean looks at.
func uncommon(w uint64) uint64 { return (w - ' '*ones | w | (w + ones)) & high }

// str writes a JSON string. That of a key that stands on one line is never folded.
func (e *emitter) str(quoted []byte, key bool) {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		e.text = jsontext.AppendUnquoted(e.text[:0], quoted)
		text = e.text
	}
	if len(text) == 0 {
		e.word([]byte(`""`))
		return
	}

	switch s := shapeOf(text); {
	case s.newline && s.block && !key:
		e.literal(text, s)
	case s.newline || isAmbiguous(text) || !s.plain && !s.single:
		e.double(text, key)
	case s.plain:
		e.plain(text, s, key)
	default:
		e.single(text, key)
	}
}

// plain writes a text without quotes.
func (e *emitter) plain(text []byte, s shape, key bool) {
	e.blank()
	if column := e.column(); !key && column+len(text) > width {
		// At a blank between two words.
		for {
			at := e.foldAt(text, s, column)
			if at < 0 {
				break
			}

			e.out = append(e.out, text[:at]...)
			column = e.fold()
			text = text[at+1:]
		}
	}

	e.out = append(e.out, text...)
	e.whitespace, e.indention = false, false
}

// foldAt returns the index of the first blank between two words after the width, and -1
// when there is none, for a text that begins at a column.
func (e *emitter) foldAt(text []byte, s shape, column int) int {
	from := max(0, width+1-column)
	if !s.ascii {
		from = afterCharacters(text, from)
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

// afterCharacters returns the index after so many characters.
func afterCharacters(text []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(text); n-- {
		_, size := utf8.DecodeRune(text[i:])
		i += size
	}
	return i
}

// fold goes on in the next line and gives its column.
func (e *emitter) fold() int {
	e.breakLine()
	e.pad(e.textIndent())
	return e.textIndent()
}

// textIndent is where the lines of a text begin after its first.
func (e *emitter) textIndent() int { return max(0, e.indent) + step }

// single writes a text in single quotes.
func (e *emitter) single(text []byte, key bool) {
	e.blank()
	e.out = append(e.out, '\'')
	column := e.column()
	broken := false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		isSpace := r == ' '
		switch {
		case isSpace && !key && column > width && i > 0 && text[i-1] != ' ' && i+1 < len(text) && text[i+1] != ' ':
			column = e.fold()
			i++
			continue
		case broken && !isSpace && r != '\u2028' && r != '\u2029':
			e.pad(e.textIndent())
			column, broken = e.textIndent(), false
		}

		if r == '\'' {
			e.out = append(e.out, '\'')
			column++
		}

		e.out = append(e.out, text[i:i+size]...)
		if column++; r == '\u2028' || r == '\u2029' {
			broken, column = true, 0
		}

		i += size
	}

	e.out = append(e.out, '\'')
	e.whitespace, e.indention = false, false
}

// double writes a text in double quotes.
func (e *emitter) double(text []byte, key bool) {
	const byteOrderMark = "\ufeff"
	all := bytes.HasPrefix(text, []byte(byteOrderMark))
	e.blank()
	e.out = append(e.out, '"')
	column := e.column()
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case all, needsEscape(r):
			before := len(e.out)
			e.out = appendEscape(e.out, r)
			column += len(e.out) - before
		case r == ' ' && !key && column > width && i > 0 && text[i-1] != ' ' && i+1 < len(text):
			column = e.fold()
			if text[i+1] == ' ' {
				e.out = append(e.out, '\\')
				column++
			}
		default:
			e.out = append(e.out, text[i:i+size]...)
			column++
		}
		i += size
	}

	e.out = append(e.out, '"')
	e.whitespace, e.indention = false, false
}

// needsEscape reports whether a character cannot stand in double quotes.
func needsEscape(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '"' || r == '\\' || r == 0x7f
	}
	return !isPrintable(r) || r == '\u2028' || r == '\u2029'
}

// short are the characters that have an escape of one letter.
var short = map[rune]byte{
	0: '0', 7: 'a', 8: 'b', 9: 't', 10: 'n', 11: 'v', 12: 'f', 13: 'r', 27: 'e',
	'"': '"', '\\': '\\', 0x85: 'N', 0xa0: '_', 0x2028: 'L', 0x2029: 'P',
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789ABCDEF"
	out = append(out, '\\')
	if letter, ok := short[r]; ok {
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

// literal writes a text as a block of lines.
func (e *emitter) literal(text []byte, s shape) {
	e.indicator("|")
	if text[0] == ' ' || breakAt(text, 0) > 0 {
		e.out = append(e.out, '0'+step)
	}

	rest, ends := trimBreak(text)
	if _, twice := trimBreak(rest); !ends {
		e.out = append(e.out, '-')
	} else if twice || len(rest) == 0 {
		e.out = append(e.out, '+')
	}

	e.breakLine()
	indent := e.textIndent()
	for len(text) > 0 {
		end, size := nextBreak(text, s)
		if end > 0 {
			e.pad(indent)
			e.out = append(e.out, text[:end]...)
		}

		e.out = append(e.out, text[end:end+size]...)
		if size > 0 {
			e.line = len(e.out)
		}

		text = text[end+size:]
	}

	e.whitespace, e.indention = true, ends
}

// nextBreak returns the index of the next line break, and its size. There is one at the end
// of a text, of no size.
func nextBreak(text []byte, s shape) (i, size int) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		end = len(text)
	}

	if s.breaks {
		for i := range text[:end] {
			if size := breakAt(text, i); size > 0 {
				return i, size
			}
		}
	}

	return end, min(1, len(text)-end)
}

// breakAt returns the size of the line break at an index, or 0.
func breakAt(text []byte, i int) int {
	switch {
	case text[i] == '\n':
		return 1
	case bytes.HasPrefix(text[i:], []byte("\u2028")), bytes.HasPrefix(text[i:], []byte("\u2029")):
		return 3
	}
	return 0
}

// trimBreak takes a line break off the end of a text.
func trimBreak(text []byte) ([]byte, bool) {
	for _, mark := range []string{"\n", "\u2028", "\u2029"} {
		if rest, ok := bytes.CutSuffix(text, []byte(mark)); ok {
			return rest, true
		}
	}
	return text, false
}

// hasBreak reports whether a text has a line break of any kind.
func hasBreak(text []byte) bool {
	return bytes.ContainsAny(text, "\n\r\u0085\u2028\u2029")
}
