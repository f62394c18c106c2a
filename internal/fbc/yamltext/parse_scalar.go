package yamltext

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// plain reads a scalar without quotes, which goes on in the lines below that are
// indented more than a column.
func (p *parser) plain(i, column int) {
	text, comment := p.plainLine(i)
	if !comment && !p.odd {
		text = p.plainLines(text, column)
	}

	switch {
	case p.odd:
	case !isAmbiguous(text):
		p.out = jsontext.AppendQuoted(p.out, text)
	case string(text) == "true", string(text) == "false", string(text) == "null", isInteger(text):
		p.out = append(p.out, text...)
	default:
		out, ok := p.resolve(p.out, text)
		p.out, p.odd = out, !ok
	}
}

// isInteger reports whether a text is an integer as JSON has it, and not too large.
func isInteger(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return len(digits) > 0 && len(digits) < 19 && isDigits(digits) && digits[0] != '0' || string(text) == "0"
}

// plainLine reads what stands in one line, and goes to the next. It tells whether a
// comment ends the line.
func (p *parser) plainLine(i int) (text []byte, comment bool) {
	end := p.lineEnd(i)
	text = p.text[i:end]
	p.at = end + 1
	if at := bytes.Index(text, []byte(" #")); at >= 0 {
		text, comment = text[:at], true
	}

	text = bytes.TrimRight(text, " ")
	if bytes.IndexByte(text, '\t') >= 0 || bytes.Contains(text, []byte(": ")) || bytes.HasSuffix(text, []byte(":")) {
		p.odd = true
	}

	return text, comment
}

// plainLines reads the further lines of a plain scalar.
func (p *parser) plainLines(text []byte, column int) []byte {
	folded := false
	for !p.odd {
		line, breaks := p.skipEmpty(p.at)
		if line == len(p.text) {
			break
		}

		first := p.skipBlanks(line)
		if first-line <= column || p.text[first] == '#' {
			break
		}
		if !folded {
			p.scalar = append(p.scalar[:0], text...)
			folded = true
		}

		more, comment := p.plainLine(first)
		p.scalar = append(appendBreaks(p.scalar, breaks), more...)
		if text = p.scalar; comment {
			break
		}
	}

	return text
}

// skipEmpty returns the index of the first line at or after an index that is not empty, and
// how many empty ones are before it.
func (p *parser) skipEmpty(i int) (line, breaks int) {
	for i < len(p.text) {
		end := p.skipBlanks(i)
		if p.text[end] != '\n' {
			break
		}
		i = end + 1
		breaks++
	}

	return i, breaks
}

// appendBreaks appends what a line break and so many empty lines are within a scalar: a
// blank, or the empty lines alone.
func appendBreaks(dst []byte, empty int) []byte {
	if empty == 0 {
		return append(dst, ' ')
	}
	return appendNewlines(dst, empty)
}

func appendNewlines(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '\n')
	}
	return dst
}

// single reads a scalar in single quotes, whose content begins at an index.
func (p *parser) single(i int) {
	p.scalar = p.scalar[:0]
	for i < len(p.text) && !p.odd {
		run := i
		for p.text[i] != '\'' && p.text[i] != '\n' {
			i++
		}
		p.scalar = append(p.scalar, p.text[run:i]...)
		switch {
		case p.text[i] == '\n':
			i = p.fold(i, 0)
		case p.text[i+1] == '\'':
			p.scalar = append(p.scalar, '\'')
			i += 2
		default:
			p.out = jsontext.AppendQuoted(p.out, p.scalar)
			p.endLine(i + 1)
			return
		}
	}

	p.odd = true
}

// double reads a scalar in double quotes, whose content begins at an index.
func (p *parser) double(i int) {
	p.scalar = p.scalar[:0]
	// escaped is how much of the scalar ends with an escape, which is never a blank that a
	// line break swallows.
	escaped := 0
	for i < len(p.text) && !p.odd {
		run := i
		for p.text[i] != '"' && p.text[i] != '\\' && p.text[i] != '\n' {
			i++
		}
		p.scalar = append(p.scalar, p.text[run:i]...)
		switch p.text[i] {
		case '\n':
			i = p.fold(i, escaped)
		case '\\':
			i = p.escape(i)
			escaped = len(p.scalar)
		default:
			p.out = jsontext.AppendQuoted(p.out, p.scalar)
			p.endLine(i + 1)
			return
		}
	}

	p.odd = true
}

// fold goes over the line break at an index within quotes: blanks around it do not count,
// but for those before a length of the scalar.
func (p *parser) fold(i, escaped int) int {
	kept := bytes.TrimRight(p.scalar[escaped:], " \t")
	p.scalar = p.scalar[:escaped+len(kept)]
	line, breaks := p.skipEmpty(i + 1)
	if line == len(p.text) {
		p.odd = true
		return line
	}

	first := p.skipBlanks(line)
	if p.text[first] == '\t' || first == line {
		// What begins a line may be the mark of a document.
		p.odd = true
	}

	p.scalar = appendBreaks(p.scalar, breaks)
	return first
}

// escapes are the characters that stand for others after a backslash.
var escapes = [256]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b", ' ': " ", '"': `"`, '\\': `\`,
	'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// digitsOf are the characters after which so many digits stand for a character.
var digitsOf = [256]int{'x': 2, 'u': 4, 'U': 8}

// escape reads the escape at an index in double quotes.
func (p *parser) escape(i int) int {
	letter := p.text[i+1]
	if letter == '\n' {
		line, breaks := p.skipEmpty(i + 2)
		if breaks > 0 || line == len(p.text) {
			p.odd = true
			return line
		}

		first := p.skipBlanks(line)
		p.odd = p.odd || p.text[first] == '\t' || first == line
		return first
	}

	if text := escapes[letter]; text != "" {
		p.scalar = append(p.scalar, text...)
		return i + 2
	}

	n := digitsOf[letter]
	if n == 0 || i+2+n > len(p.text) {
		p.odd = true
		return len(p.text)
	}

	code, err := strconv.ParseInt(string(p.text[i+2:i+2+n]), 16, 32)
	r := rune(code)
	p.odd = p.odd || err != nil || !utf8.ValidRune(r)
	p.scalar = utf8.AppendRune(p.scalar, r)

	return i + 2 + n
}

// header is what stands in the first line of a block: the number of its indentation, if
// there is one, and what happens with line breaks at its end.
type header struct {
	indent int
	chomp  byte
}

// blockHeader reads what stands after the bar of a block, and goes to the next line.
func (p *parser) blockHeader(i int) header {
	var h header
	for ; ; i++ {
		switch b := p.text[i]; {
		case '1' <= b && b <= '9' && h.indent == 0:
			h.indent = int(b - '0')
		case (b == '+' || b == '-') && h.chomp == 0:
			h.chomp = b
		default:
			p.endLine(i)
			return h
		}
	}
}

// literal reads the lines of a block in something that stands in a column.
func (p *parser) literal(i, column int) {
	h := p.blockHeader(i)
	indent := column + h.indent
	if h.indent == 0 {
		indent = p.blockIndent(column)
	}

	p.scalar = p.scalar[:0]
	breaks, filled := 0, false
	for p.at < len(p.text) && !p.odd {
		end := p.lineEnd(p.at)
		line := p.text[p.at:end]
		content := bytes.TrimLeft(line[:min(indent, len(line))], " ")
		blanks := min(indent, len(line)) - len(content)
		if len(line) > blanks {
			if blanks < indent {
				p.odd = p.odd || line[blanks] == '\t'
				break
			}
			p.scalar = append(appendNewlines(p.scalar, breaks), line[indent:]...)
			breaks, filled = 0, true
		}

		breaks++
		p.at = end + 1
	}

	switch {
	case h.chomp == '+':
		p.scalar = appendNewlines(p.scalar, breaks)
	case h.chomp == 0 && filled:
		p.scalar = append(p.scalar, '\n')
	}

	p.out = jsontext.AppendQuoted(p.out, p.scalar)
}

// blockIndent finds the indentation of a block that does not name it: that of its first
// line that is not empty.
func (p *parser) blockIndent(column int) int {
	line, _ := p.skipEmpty(p.at)
	first := line
	if line < len(p.text) {
		first = p.skipBlanks(line)
		p.odd = p.odd || p.text[first] == '\t'
	}

	for i := p.at; i < line; i = p.lineEnd(i) + 1 {
		// The blanks of an empty line that is longer would count.
		p.odd = p.odd || p.lineEnd(i)-i > first-line
	}

	return max(first-line, column+1)
}
