package yamltext

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// parsePlainScalar parses a plain scalar. It continues in the lines below that are indented more
// than the column.
func (p *parser) parsePlainScalar(i, column int) {
	text, comment := p.parsePlainLine(i)
	if !comment && !p.unsupported {
		text = p.parsePlainLines(text, column)
	}

	switch {
	case p.unsupported:
	case !isAmbiguousPlain(text):
		p.out = jsontext.AppendQuoted(p.out, text)
	case string(text) == "true", string(text) == "false", string(text) == "null", isJSONInteger(text):
		p.out = append(p.out, text...)
	default:
		out, ok := p.resolve(p.out, text)
		p.out, p.unsupported = out, !ok
	}
}

// isJSONInteger reports whether a text is a JSON integer of at most 18 digits.
func isJSONInteger(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return len(digits) > 0 && len(digits) < 19 && hasOnlyDigits(digits) && digits[0] != '0' || string(text) == "0"
}

// parsePlainLine parses the part of a plain scalar in one line and moves to the next line. It
// reports whether a comment ends the line.
func (p *parser) parsePlainLine(i int) (text []byte, comment bool) {
	end := p.findLineEnd(i)
	text = p.text[i:end]
	p.lineStart = end + 1
	if at := bytes.Index(text, []byte(" #")); at >= 0 {
		text, comment = text[:at], true
	}

	text = bytes.TrimRight(text, " ")
	if bytes.IndexByte(text, '\t') >= 0 || bytes.Contains(text, []byte(": ")) || bytes.HasSuffix(text, []byte(":")) {
		p.unsupported = true
	}

	return text, comment
}

// parsePlainLines parses the further lines of a plain scalar.
func (p *parser) parsePlainLines(text []byte, column int) []byte {
	folded := false
	for !p.unsupported {
		line, breaks := p.skipEmptyLines(p.lineStart)
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

		more, comment := p.parsePlainLine(first)
		p.scalar = append(appendFoldedBreaks(p.scalar, breaks), more...)
		if text = p.scalar; comment {
			break
		}
	}

	return text
}

// skipEmptyLines returns the index of the first line at or after an index that is not empty, and
// the number of empty lines before it.
func (p *parser) skipEmptyLines(i int) (line, breaks int) {
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

// appendFoldedBreaks appends the value of a line break and the empty lines after it within a
// scalar: a blank if there are none, otherwise a line feed for each empty line.
func appendFoldedBreaks(dst []byte, empty int) []byte {
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

// parseSingleQuoted parses a scalar in single quotes, whose content begins at the index.
func (p *parser) parseSingleQuoted(i int) {
	p.scalar = p.scalar[:0]
	for i < len(p.text) && !p.unsupported {
		run := i
		for p.text[i] != '\'' && p.text[i] != '\n' {
			i++
		}
		p.scalar = append(p.scalar, p.text[run:i]...)
		switch {
		case p.text[i] == '\n':
			i = p.foldLineBreak(i, 0)
		case p.text[i+1] == '\'':
			p.scalar = append(p.scalar, '\'')
			i += 2
		default:
			p.out = jsontext.AppendQuoted(p.out, p.scalar)
			p.endLineAfter(i + 1)
			return
		}
	}

	p.unsupported = true
}

// parseDoubleQuoted parses a scalar in double quotes, whose content begins at the index.
func (p *parser) parseDoubleQuoted(i int) {
	p.scalar = p.scalar[:0]
	// escaped is the length of the scalar up to its last escape. A line break never removes
	// blanks of this part.
	escaped := 0
	for i < len(p.text) && !p.unsupported {
		run := i
		for p.text[i] != '"' && p.text[i] != '\\' && p.text[i] != '\n' {
			i++
		}
		p.scalar = append(p.scalar, p.text[run:i]...)
		switch p.text[i] {
		case '\n':
			i = p.foldLineBreak(i, escaped)
		case '\\':
			i = p.parseEscapeSequence(i)
			escaped = len(p.scalar)
		default:
			p.out = jsontext.AppendQuoted(p.out, p.scalar)
			p.endLineAfter(i + 1)
			return
		}
	}

	p.unsupported = true
}

// foldLineBreak folds the line break at an index within quotes. It removes the blanks around it,
// except those in the escaped part of the scalar.
func (p *parser) foldLineBreak(i, escaped int) int {
	kept := bytes.TrimRight(p.scalar[escaped:], " \t")
	p.scalar = p.scalar[:escaped+len(kept)]
	line, breaks := p.skipEmptyLines(i + 1)
	if line == len(p.text) {
		p.unsupported = true
		return line
	}

	first := p.skipBlanks(line)
	if p.text[first] == '\t' || first == line {
		// Text at the start of a line may be a document marker.
		p.unsupported = true
	}

	p.scalar = appendFoldedBreaks(p.scalar, breaks)
	return first
}

// escapedCharacters are the values of escapes of one letter.
var escapedCharacters = [256]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b", ' ': " ", '"': `"`, '\\': `\`,
	'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escapeDigits are the numbers of hex digits after the letter of an escape.
var escapeDigits = [256]int{'x': 2, 'u': 4, 'U': 8}

// parseEscapeSequence parses the escape at an index in double quotes.
func (p *parser) parseEscapeSequence(i int) int {
	letter := p.text[i+1]
	if letter == '\n' {
		line, breaks := p.skipEmptyLines(i + 2)
		if breaks > 0 || line == len(p.text) {
			p.unsupported = true
			return line
		}

		first := p.skipBlanks(line)
		p.unsupported = p.unsupported || p.text[first] == '\t' || first == line
		return first
	}

	if text := escapedCharacters[letter]; text != "" {
		p.scalar = append(p.scalar, text...)
		return i + 2
	}

	n := escapeDigits[letter]
	if n == 0 || i+2+n > len(p.text) {
		p.unsupported = true
		return len(p.text)
	}

	code, err := strconv.ParseInt(string(p.text[i+2:i+2+n]), 16, 32)
	r := rune(code)
	p.unsupported = p.unsupported || err != nil || !utf8.ValidRune(r)
	p.scalar = utf8.AppendRune(p.scalar, r)

	return i + 2 + n
}

// blockHeader is the header of a block scalar: its indentation indicator, if there is one, and
// its chomping indicator for trailing line breaks.
type blockHeader struct {
	indent   int
	chomping byte
}

// parseBlockHeader parses the header of a block scalar after its bar and moves to the next line.
func (p *parser) parseBlockHeader(i int) blockHeader {
	var h blockHeader
	for ; ; i++ {
		switch b := p.text[i]; {
		case '1' <= b && b <= '9' && h.indent == 0:
			h.indent = int(b - '0')
		case (b == '+' || b == '-') && h.chomping == 0:
			h.chomping = b
		default:
			p.endLineAfter(i)
			return h
		}
	}
}

// parseLiteralBlock parses the lines of a literal block. column is that of the enclosing node.
func (p *parser) parseLiteralBlock(i, column int) {
	h := p.parseBlockHeader(i)
	indent := column + h.indent
	if h.indent == 0 {
		indent = p.findBlockIndent(column)
	}

	p.scalar = p.scalar[:0]
	breaks, filled := 0, false
	for p.lineStart < len(p.text) && !p.unsupported {
		end := p.findLineEnd(p.lineStart)
		line := p.text[p.lineStart:end]
		content := bytes.TrimLeft(line[:min(indent, len(line))], " ")
		blanks := min(indent, len(line)) - len(content)
		if len(line) > blanks {
			if blanks < indent {
				p.unsupported = p.unsupported || line[blanks] == '\t'
				break
			}
			p.scalar = append(appendNewlines(p.scalar, breaks), line[indent:]...)
			breaks, filled = 0, true
		}

		breaks++
		p.lineStart = end + 1
	}

	switch {
	case h.chomping == '+':
		p.scalar = appendNewlines(p.scalar, breaks)
	case h.chomping == 0 && filled:
		p.scalar = append(p.scalar, '\n')
	}

	p.out = jsontext.AppendQuoted(p.out, p.scalar)
}

// findBlockIndent returns the indentation of a block without an indentation indicator: that of
// its first line that is not empty.
func (p *parser) findBlockIndent(column int) int {
	line, _ := p.skipEmptyLines(p.lineStart)
	first := line
	if line < len(p.text) {
		first = p.skipBlanks(line)
		p.unsupported = p.unsupported || p.text[first] == '\t'
	}

	for i := p.lineStart; i < line; i = p.findLineEnd(i) + 1 {
		// The blanks of a longer empty line would count as indentation.
		p.unsupported = p.unsupported || p.findLineEnd(i)-i > first-line
	}

	return max(first-line, column+1)
}
