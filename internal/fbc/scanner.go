package fbc

import (
	"bytes"
	"slices"
)

// scanner finds the boundaries of the documents of a text: JSON objects, and YAML documents
// separated by "---" lines. It does not parse them.
type scanner struct {
	text   []byte
	offset int
	// lineStart is set if offset is the start of a line.
	lineStart bool
	// final is set if nothing follows the text.
	final bool
}

// documentKind is the format of a document.
type documentKind int

const (
	// noDocument means that no further document is visible in the text.
	noDocument documentKind = iota
	jsonObject
	yamlDocument
)

// skipToDocument skips blank lines, comments, directives and separators between documents. It
// returns the kind of the next document. The first line of a YAML document keeps its indentation.
func (s *scanner) skipToDocument() documentKind {
	for {
		i := s.offset
		for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t') {
			i++
		}
		if i == len(s.text) {
			if s.final {
				s.offset = i
			}
			return noDocument
		}
		switch c := s.text[i]; {
		case c == '\n', c == '\r':
			s.moveToOffset(i + 1)
		case c == '#' && (i > s.offset || s.lineStart), c == '%' && i == s.offset && s.lineStart:
			if !s.skipLine(i) {
				return noDocument
			}
		case c == '{':
			s.moveToOffset(i)
			return jsonObject
		case i > s.offset || !s.lineStart:
			return yamlDocument
		case !s.final && i+4 > len(s.text):
			return noDocument
		case isSeparator(s.text[i:]):
			s.moveToOffset(i + 3)
		default:
			return yamlDocument
		}
	}
}

// skipLine moves to the line after the one at an index. It returns false if the line has no visible
// end.
func (s *scanner) skipLine(at int) bool {
	if end := findLineEnd(s.text[at:]); end >= 0 {
		s.moveToOffset(at + end)
		return true
	}
	if s.final {
		s.offset = len(s.text)
	}
	return false
}

func (s *scanner) moveToOffset(to int) {
	if to > s.offset {
		s.offset = to
		s.lineStart = endsWithLineBreak(s.text[:to])
	}
}

// unicodeLineBreaks are the line breaks of YAML 1.1 other than line feed and carriage return:
// next line, line separator and paragraph separator.
var unicodeLineBreaks = [][]byte{[]byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

// endsWithLineBreak reports whether a text ends with a line break of YAML 1.1.
func endsWithLineBreak(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if last := text[len(text)-1]; last < 0x80 {
		return last == '\n' || last == '\r'
	}
	return slices.ContainsFunc(unicodeLineBreaks, func(b []byte) bool { return bytes.HasSuffix(text, b) })
}

// findLineEnd returns the index after the first line break of YAML 1.1, or -1.
func findLineEnd(text []byte) int {
	end := bytes.IndexAny(text, "\n\r") + 1
	if end > 0 {
		text = text[:end]
	}

	for _, b := range unicodeLineBreaks {
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

// isSeparator reports whether a line starts with "---" or "..." as a separate word.
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

// findYAMLEnd returns the end of the YAML document at the current offset, or -1 if it is not
// visible.
func (s *scanner) findYAMLEnd() int {
	for i := s.offset; ; {
		newline := bytes.IndexByte(s.text[i:], '\n')
		if newline < 0 {
			if s.final {
				return len(s.text)
			}
			return -1
		}

		i += newline + 1
		// A separator is only recognized with the byte that follows it.
		if !s.final && i+4 > len(s.text) {
			return -1
		}
		if isSeparator(s.text[i:]) {
			return i
		}
	}
}
