package yamltext

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// scalarScanner reads the lines of a document, and the scalars that begin in them.
type scalarScanner struct {
	text sourceText
	// lineStart is the start of the next unread line.
	lineStart int
	// first and column are set by skipToContent. first is the index of the first non-blank
	// character of the next line. column is its column, or -1 at the end of the text.
	first, column int
	// unsupported is set if the document needs a complete parser.
	unsupported bool
	// scalar is a buffer for scalars that are not a part of the text.
	scalar []byte
}

// skipToContent moves to the next line that is not empty and not only a comment.
func (s *scalarScanner) skipToContent() {
	for s.lineStart < len(s.text) {
		s.first = s.lineStart
		for s.text[s.first] == ' ' { // The text ends with a line break.
			s.first++
		}

		switch s.text[s.first] {
		case '\n':
			s.lineStart = s.first + 1
			continue
		case '#':
			s.lineStart = s.text.findLineEnd(s.first) + 1
			continue
		case '\t':
			s.unsupported = true
		}

		s.column = s.first - s.lineStart
		if s.column == 0 && (bytes.HasPrefix(s.text[s.lineStart:], []byte("---")) || bytes.HasPrefix(s.text[s.lineStart:], []byte("..."))) {
			s.unsupported = true
		}

		return
	}

	s.column = -1
}

// endLineAfter moves to the next line. Only a comment may follow the index.
func (s *scalarScanner) endLineAfter(i int) {
	end := s.text.skipBlanks(i)
	if s.text[end] != '\n' && (s.text[end] != '#' || end == i) {
		s.unsupported = true
		return
	}
	s.lineStart = s.text.findLineEnd(end) + 1
}

// scanPlainLine reads the part of a plain scalar in one line and moves to the next line. It
// reports whether a comment ends the line.
func (s *scalarScanner) scanPlainLine(i int) (text []byte, comment bool) {
	end := s.text.findLineEnd(i)
	text = s.text[i:end]
	s.lineStart = end + 1
	if at := bytes.Index(text, []byte(" #")); at >= 0 {
		text, comment = text[:at], true
	}

	text = bytes.TrimRight(text, " ")
	if bytes.IndexByte(text, '\t') >= 0 || bytes.Contains(text, []byte(": ")) || bytes.HasSuffix(text, []byte(":")) {
		s.unsupported = true
	}

	return text, comment
}

// scanPlainLines reads the further lines of a plain scalar.
func (s *scalarScanner) scanPlainLines(text []byte, column int) []byte {
	folded := false
	for !s.unsupported {
		line, breaks := s.text.skipEmptyLines(s.lineStart)
		if line == len(s.text) {
			break
		}

		first := s.text.skipBlanks(line)
		if first-line <= column || s.text[first] == '#' {
			break
		}
		if !folded {
			s.scalar = append(s.scalar[:0], text...)
			folded = true
		}

		more, comment := s.scanPlainLine(first)
		s.scalar = append(appendFoldedBreaks(s.scalar, breaks), more...)
		if text = s.scalar; comment {
			break
		}
	}

	return text
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

// scanSingleQuoted reads a scalar in single quotes, whose content begins at the index, into the buffer.
func (s *scalarScanner) scanSingleQuoted(i int) {
	s.scalar = s.scalar[:0]
	for i < len(s.text) && !s.unsupported {
		run := i
		for s.text[i] != '\'' && s.text[i] != '\n' {
			i++
		}
		s.scalar = append(s.scalar, s.text[run:i]...)
		switch {
		case s.text[i] == '\n':
			i = s.foldLineBreak(i, 0)
		case s.text[i+1] == '\'':
			s.scalar = append(s.scalar, '\'')
			i += 2
		default:
			s.endLineAfter(i + 1)
			return
		}
	}

	s.unsupported = true
}

// scanDoubleQuoted reads a scalar in double quotes, whose content begins at the index, into the buffer.
func (s *scalarScanner) scanDoubleQuoted(i int) {
	s.scalar = s.scalar[:0]
	// escaped is the length of the scalar up to its last escape. A line break never removes
	// blanks of this part.
	escaped := 0
	for i < len(s.text) && !s.unsupported {
		run := i
		for s.text[i] != '"' && s.text[i] != '\\' && s.text[i] != '\n' {
			i++
		}
		s.scalar = append(s.scalar, s.text[run:i]...)
		switch s.text[i] {
		case '\n':
			i = s.foldLineBreak(i, escaped)
		case '\\':
			i = s.scanEscapeSequence(i)
			escaped = len(s.scalar)
		default:
			s.endLineAfter(i + 1)
			return
		}
	}

	s.unsupported = true
}

// foldLineBreak folds the line break at an index within quotes. It removes the blanks around it,
// except those in the escaped part of the scalar.
func (s *scalarScanner) foldLineBreak(i, escaped int) int {
	kept := bytes.TrimRight(s.scalar[escaped:], " \t")
	s.scalar = s.scalar[:escaped+len(kept)]
	line, breaks := s.text.skipEmptyLines(i + 1)
	if line == len(s.text) {
		s.unsupported = true
		return line
	}

	first := s.text.skipBlanks(line)
	if s.text[first] == '\t' || first == line {
		// Text at the start of a line may be a document marker.
		s.unsupported = true
	}

	s.scalar = appendFoldedBreaks(s.scalar, breaks)
	return first
}

// escapedCharacters are the values of escapes of one letter.
var escapedCharacters = [256]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b", ' ': " ", '"': `"`, '\\': `\`,
	'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escapeDigits are the numbers of hex digits after the letter of an escape.
var escapeDigits = [256]int{'x': 2, 'u': 4, 'U': 8}

// scanEscapeSequence reads the escape at an index in double quotes.
func (s *scalarScanner) scanEscapeSequence(i int) int {
	letter := s.text[i+1]
	if letter == '\n' {
		line, breaks := s.text.skipEmptyLines(i + 2)
		if breaks > 0 || line == len(s.text) {
			s.unsupported = true
			return line
		}

		first := s.text.skipBlanks(line)
		s.unsupported = s.unsupported || s.text[first] == '\t' || first == line
		return first
	}

	if text := escapedCharacters[letter]; text != "" {
		s.scalar = append(s.scalar, text...)
		return i + 2
	}

	n := escapeDigits[letter]
	if n == 0 || i+2+n > len(s.text) {
		s.unsupported = true
		return len(s.text)
	}

	code, err := strconv.ParseUint(string(s.text[i+2:i+2+n]), 16, 31) // ParseInt would allow a sign.
	r := rune(code)
	s.unsupported = s.unsupported || err != nil || !utf8.ValidRune(r)
	s.scalar = utf8.AppendRune(s.scalar, r)

	return i + 2 + n
}

// blockHeader is the header of a block scalar: its indentation indicator, if there is one, and
// its chomping indicator for trailing line breaks.
type blockHeader struct {
	indent   int
	chomping byte
}

// scanBlockHeader reads the header of a block scalar after its bar and moves to the next line.
func (s *scalarScanner) scanBlockHeader(i int) blockHeader {
	var h blockHeader
	for ; ; i++ {
		switch b := s.text[i]; {
		case '1' <= b && b <= '9' && h.indent == 0:
			h.indent = int(b - '0')
		case (b == '+' || b == '-') && h.chomping == 0:
			h.chomping = b
		default:
			s.endLineAfter(i)
			return h
		}
	}
}

// scanLiteralBlock reads the lines of a literal block into the buffer. column is that of the enclosing
// node.
func (s *scalarScanner) scanLiteralBlock(i, column int) {
	h := s.scanBlockHeader(i)
	indent := column + h.indent
	if h.indent == 0 {
		indent = s.findBlockIndent(column)
	}

	s.scalar = s.scalar[:0]
	breaks, filled := 0, false
	for s.lineStart < len(s.text) && !s.unsupported {
		end := s.text.findLineEnd(s.lineStart)
		line := s.text[s.lineStart:end]
		content := bytes.TrimLeft(line[:min(indent, len(line))], " ")
		blanks := min(indent, len(line)) - len(content)
		if len(line) > blanks {
			if blanks < indent {
				s.unsupported = s.unsupported || line[blanks] == '\t'
				break
			}
			s.scalar = append(appendNewlines(s.scalar, breaks), line[indent:]...)
			breaks, filled = 0, true
		}

		breaks++
		s.lineStart = end + 1
	}

	switch {
	case h.chomping == '+':
		s.scalar = appendNewlines(s.scalar, breaks)
	case h.chomping == 0 && filled:
		s.scalar = append(s.scalar, '\n')
	}
}

// findBlockIndent returns the indentation of a block without an indentation indicator: that of
// its first line that is not empty.
func (s *scalarScanner) findBlockIndent(column int) int {
	line, _ := s.text.skipEmptyLines(s.lineStart)
	first := line
	if line < len(s.text) {
		first = s.text.skipBlanks(line)
		s.unsupported = s.unsupported || s.text[first] == '\t'
	}

	for i := s.lineStart; i < line; i = s.text.findLineEnd(i) + 1 {
		// The blanks of a longer empty line would count as indentation.
		s.unsupported = s.unsupported || s.text.findLineEnd(i)-i > first-line
	}

	return max(first-line, column+1)
}
