package fbc

import "bytes"

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
		for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t' || s.text[i] == '\r') {
			i++
		}
		if i == len(s.text) {
			if s.final {
				s.at = i
			}
			return noDocument
		}
		switch c := s.text[i]; {
		case c == '\n':
			s.move(i + 1)
		case c == '#' && (i > s.at || s.lineStart), c == '%' && i == s.at && s.lineStart:
			end := bytes.IndexByte(s.text[i:], '\n')
			if end < 0 {
				if s.final {
					s.at = len(s.text)
				}
				return noDocument
			}
			s.move(i + end + 1)
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
		s.lineStart = s.text[to-1] == '\n'
	}
}

// isSeparator tells whether a line starts with "---" or "..." as a word of its own.
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

// yamlEnd gives the index where the YAML document ends that begins at at, or -1 when that
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
