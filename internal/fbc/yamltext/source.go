package yamltext

import "bytes"

// sourceText is the text of a document, which ends with a line break.
type sourceText []byte

// isSequenceEntry reports whether an entry of a sequence begins at an index.
func (s sourceText) isSequenceEntry(i int) bool {
	return s[i] == '-' && (s[i+1] == ' ' || s[i+1] == '\n')
}

// findKeyColon returns the index of the colon after the key at an index, or 0 if there is none.
func (s sourceText) findKeyColon(i int) int {
	if b := s[i]; b == '"' || b == '\'' {
		line := s[i:s.findLineEnd(i)]
		end := 1 + bytes.IndexByte(line[1:], b)
		if end == 0 || bytes.IndexByte(line[:end], '\\') >= 0 {
			return 0
		}
		if after := line[end+1:]; len(after) == 0 || after[0] != ':' || len(after) > 1 && after[1] != ' ' {
			return 0
		}

		return i + end + 1
	}

	if !s.canStartPlainScalar(i) {
		return 0
	}

	for {
		next := bytes.IndexByte(s[i:], ':')
		if next < 0 || bytes.IndexByte(s[i:i+next], '\n') >= 0 {
			return 0
		}
		if i += next; s[i+1] == ' ' || s[i+1] == '\n' {
			return i
		}
		i++
	}
}

// canStartPlainScalar reports whether a plain scalar can begin at an index.
func (s sourceText) canStartPlainScalar(i int) bool {
	switch s[i] {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '\t', '\n', ' ':
		return false
	case '-', '?', ':':
		return s[i+1] != ' ' && s[i+1] != '\n' && s[i+1] != '\t'
	}
	return true
}

func (s sourceText) skipBlanks(i int) int {
	for s[i] == ' ' {
		i++
	}
	return i
}

// findLineEnd returns the index of the line break at or after an index.
func (s sourceText) findLineEnd(i int) int { return i + bytes.IndexByte(s[i:], '\n') }

// skipEmptyLines returns the index of the first line at or after an index that is not empty, and
// the number of empty lines before it.
func (s sourceText) skipEmptyLines(i int) (line, breaks int) {
	for i < len(s) {
		end := s.skipBlanks(i)
		if s[end] != '\n' {
			break
		}
		i = end + 1
		breaks++
	}

	return i, breaks
}
