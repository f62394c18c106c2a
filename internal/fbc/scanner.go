package fbc

import (
	"bytes"
	"slices"
)

// scanner finds where the documents of a text begin and end: JSON objects, and YAML
// documents with "---" lines between them. It does not look into them.
type scanner struct {
	text []byte
	at   int
	// lineStart says that a line begins at at.
	lineStart bool
	// final says that nothing follows the text.
	final bool
}

// kind is what a document is written in.
type kind int

const (
	// noDocument says that the text has no further one, as far as can be seen.
	noDocument kind = iota
	jsonObject
	yamlDocument
)

// begin goes past what stands between documents: blank lines, comments, directives and
// separators. It tells what begins there. The first line of a YAML document keeps its
// indentation.
func (s *scanner) begin() kind {
	for {
		i := s.at
		for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t') {
			i++
		}
		if i == len(s.text) {
			if s.final {
				s.at = i
			}
			return noDocument
		}
		switch c := s.text[i]; {
		case c == '\n', c == '\r':
			s.move(i + 1)
		case c == '#' && (i > s.at || s.lineStart), c == '%' && i == s.at && s.lineStart:
			end := lineEnd(s.text[i:])
			if end < 0 {
				if s.final {
					s.at = len(s.text)
				}
				return noDocument
			}
			s.move(i + end)

		case c == '{':
			s.move(i)
			return jsonObject
		case i > s.at || !s.lineStart:
			return yamlDocument
		case !s.final && i+4 > len(s.text):
			return noDocument
		case isSeparator(s.text[i:]):
			s.move(i + 3)
		default:
			return yamlDocument
		}
	}
}

// move goes forward to an index.
func (s *scanner) move(to int) {
	if to > s.at {
		s.at = to
		s.lineStart = endsLine(s.text[:to])
	}
}

// wideBreaks are the line breaks of YAML 1.1 beside line feed and carriage return: next
// line, line separator and paragraph separator.
var wideBreaks = [][]byte{[]byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

// endsLine reports whether a text ends with a line break of YAML 1.1.
func endsLine(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if last := text[len(text)-1]; last < 0x80 {
		return last == '\n' || last == '\r'
	}
	return slices.ContainsFunc(wideBreaks, func(b []byte) bool { return bytes.HasSuffix(text, b) })
}

// lineEnd returns the index after the first line break of YAML 1.1, or -1.
func lineEnd(text []byte) int {
	end := bytes.IndexAny(text, "\n\r") + 1
	if end > 0 {
		text = text[:end]
	}

	for _, b := range wideBreaks {
		if i := bytes.Index(text, b); i >= 0 {
			end = i + len(b)
			text = text[:end]
		}
	}

	if end == 0 {
		return -1
	}

	return end
}

// isSeparator reports whether a line starts with "---" or "..." as a word of its own.
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

// yamlEnd returns the index where the YAML document ends that begins at at, or -1 when that
// cannot be seen.
func (s *scanner) yamlEnd() int {
	for i := s.at; ; {
		newline := bytes.IndexByte(s.text[i:], '\n')
		if newline < 0 {
			if s.final {
				return len(s.text)
			}
			return -1
		}

		i += newline + 1
		// The marker and the byte after it have to be there to be seen.
		if !s.final && i+4 > len(s.text) {
			return -1
		}
		if isSeparator(s.text[i:]) {
			return i
		}
	}
}
