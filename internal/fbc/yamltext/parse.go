package yamltext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// AppendJSON appends a YAML document, without a line "---", as compact JSON. Keys keep their
// order, and duplicate keys stay. It supports the YAML that programs write: block mappings and
// sequences; plain and quoted scalars, folded or not; literal blocks; comments. It returns false
// for any other YAML, for invalid YAML, and if lists and mappings are nested deeper than
// maxDepth. The caller then needs a complete parser.
//
// It calls resolve for a plain scalar that is not a string, except for the common forms of null,
// booleans and integers. resolve appends the value as JSON, or returns false.
func AppendJSON(dst, text []byte, maxDepth int, resolve func(dst, scalar []byte) ([]byte, bool)) (out []byte, ok bool) {
	if !isSupportedText(text) {
		return dst, false
	}

	p := parser{text: text, out: dst, depthLeft: maxDepth, resolve: resolve}
	p.skipToContent()
	p.parseBlockNode(-1)
	if p.skipToContent(); p.unsupported || p.column >= 0 {
		return dst, false
	}

	return p.out, true
}

// parser parses a document line by line.
type parser struct {
	text []byte
	out  []byte
	// lineStart is the start of the next unread line.
	lineStart int
	// first and column are set by skipToContent. first is the index of the first non-blank
	// character of the next line. column is its column, or -1 at the end of the text.
	first, column int
	// depthLeft is the number of further lists and mappings that may be opened.
	depthLeft int
	resolve   func(dst, scalar []byte) ([]byte, bool)
	// unsupported is set if the document needs a complete parser.
	unsupported bool
	// scalar is a buffer for scalars that are not a part of the text.
	scalar []byte
}

// isSupportedText reports whether a text has only printable characters, tabs and line feeds, and
// ends with a line feed.
func isSupportedText(text []byte) bool {
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}

	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := markUncommon(binary.LittleEndian.Uint64(text[i : i+8]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) >> 3
		}

		b := text[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if r < 0x10000 && !isPrintable(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError && size == 1 {
				return false
			}
			i += size
			continue
		}

		if b < ' ' && b != '\n' && b != '\t' || b == 0x7f {
			return false
		}

		i++
	}

	return true
}

// skipToContent moves to the next line that is not empty and not only a comment.
func (p *parser) skipToContent() {
	for p.lineStart < len(p.text) {
		p.first = p.lineStart
		for p.text[p.first] == ' ' { // The text ends with a line break.
			p.first++
		}

		switch p.text[p.first] {
		case '\n':
			p.lineStart = p.first + 1
			continue
		case '#':
			p.lineStart = p.findLineEnd(p.first) + 1
			continue
		case '\t':
			p.unsupported = true
		}

		p.column = p.first - p.lineStart
		if p.column == 0 && (bytes.HasPrefix(p.text[p.lineStart:], []byte("---")) || bytes.HasPrefix(p.text[p.lineStart:], []byte("..."))) {
			p.unsupported = true
		}

		return
	}

	p.column = -1
}

// findLineEnd returns the index of the line break at or after an index.
func (p *parser) findLineEnd(i int) int { return i + bytes.IndexByte(p.text[i:], '\n') }

// parseBlockNode parses the node that begins in the next line. parent is the column of the
// enclosing node.
func (p *parser) parseBlockNode(parent int) {
	switch {
	case p.unsupported:
	case p.column <= parent:
		p.out = append(p.out, "null"...)
	case p.isSequenceEntry(p.first):
		p.parseBlockSequence(p.column)
	case p.findKeyColon(p.first) > 0:
		p.parseBlockMapping(p.column)
	default:
		p.unsupported = true
	}
}

// isSequenceEntry reports whether an entry of a sequence begins at an index.
func (p *parser) isSequenceEntry(i int) bool {
	return p.text[i] == '-' && (p.text[i+1] == ' ' || p.text[i+1] == '\n')
}

// findKeyColon returns the index of the colon after the key at an index, or 0 if there is none.
func (p *parser) findKeyColon(i int) int {
	if b := p.text[i]; b == '"' || b == '\'' {
		line := p.text[i:p.findLineEnd(i)]
		end := 1 + bytes.IndexByte(line[1:], b)
		if end == 0 || bytes.IndexByte(line[:end], '\\') >= 0 {
			return 0
		}
		if after := line[end+1:]; len(after) == 0 || after[0] != ':' || len(after) > 1 && after[1] != ' ' {
			return 0
		}

		return i + end + 1
	}

	if !p.canStartPlainScalar(i) {
		return 0
	}

	for {
		next := bytes.IndexByte(p.text[i:], ':')
		if next < 0 || bytes.IndexByte(p.text[i:i+next], '\n') >= 0 {
			return 0
		}
		if i += next; p.text[i+1] == ' ' || p.text[i+1] == '\n' {
			return i
		}
		i++
	}
}

// canStartPlainScalar reports whether a plain scalar can begin at an index.
func (p *parser) canStartPlainScalar(i int) bool {
	switch p.text[i] {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '\t', '\n', ' ':
		return false
	case '-', '?', ':':
		return p.text[i+1] != ' ' && p.text[i+1] != '\n' && p.text[i+1] != '\t'
	}
	return true
}

// maxKeyLength is the maximum length of a supported key. Complete parsers reject keys from 1024
// characters on.
const maxKeyLength = 1000

// parseBlockMapping parses the mapping at a column, from its key in the next line.
func (p *parser) parseBlockMapping(column int) {
	p.openCollection('{')
	for first := true; !p.unsupported; first = false {
		line := p.lineStart
		colon := p.findKeyColon(p.first)
		if colon == 0 || colon-p.first > maxKeyLength {
			p.unsupported = true
			return
		}
		if !first {
			p.out = append(p.out, ',')
		}

		p.parseMappingKey(p.text[p.first:colon])
		p.parseValue(colon+1, column, true)
		p.skipToContent()
		if p.column != column || p.lineStart == line {
			break
		}
	}

	p.closeCollection('}', column)
}

func (p *parser) parseMappingKey(text []byte) {
	if text[0] == '"' || text[0] == '\'' {
		text = text[1 : len(text)-1]
	} else if bytes.IndexByte(text, '\t') >= 0 || bytes.HasSuffix(text, []byte(" ")) || bytes.Contains(text, []byte(" #")) || isAmbiguousPlain(text) {
		p.unsupported = true
	}
	p.out = append(jsontext.AppendQuoted(p.out, text), ':')
}

// parseBlockSequence parses the sequence at a column, from its entry in the next line.
func (p *parser) parseBlockSequence(column int) {
	p.openCollection('[')
	for first := true; !p.unsupported; first = false {
		if !first {
			p.out = append(p.out, ',')
		}

		line := p.lineStart
		p.parseSequenceEntry(p.first+1, column)
		p.skipToContent()
		if p.column != column || p.lineStart == line || !p.isSequenceEntry(p.first) {
			break
		}
	}

	p.closeCollection(']', column)
}

// parseSequenceEntry parses the content of an entry of a sequence after its dash.
func (p *parser) parseSequenceEntry(i, column int) {
	start := p.lineStart
	i = p.skipBlanks(i)
	switch {
	case p.text[i] == '\n' || p.text[i] == '#':
		p.parseValue(i, column, false)
	case p.isSequenceEntry(i):
		p.first, p.column = i, i-start
		p.parseBlockSequence(p.column)
	case p.findKeyColon(i) > 0:
		p.first, p.column = i, i-start
		p.parseBlockMapping(p.column)
	default:
		p.parseValue(i, column, false)
	}
}

func (p *parser) openCollection(mark byte) {
	if p.depthLeft--; p.depthLeft < 0 {
		p.unsupported = true
	}
	p.out = append(p.out, mark)
}

// closeCollection ends a mapping or a sequence at a column. It marks a next line with deeper
// indentation as unsupported.
func (p *parser) closeCollection(mark byte, column int) {
	p.depthLeft++
	p.out = append(p.out, mark)
	p.unsupported = p.unsupported || p.column > column
}

func (p *parser) skipBlanks(i int) int {
	for p.text[i] == ' ' {
		i++
	}
	return i
}

// parseValue parses the value after a colon or a dash, which may continue in the lines below.
// column is that of the enclosing mapping or sequence.
func (p *parser) parseValue(i, column int, inMapping bool) {
	i = p.skipBlanks(i)
	switch p.text[i] {
	case '\n', '#':
		p.lineStart = p.findLineEnd(i) + 1
		p.skipToContent()
		if inMapping && p.column == column && p.isSequenceEntry(p.first) {
			column--
		}
		p.parseBlockNode(column)

	case '"':
		p.parseDoubleQuoted(i + 1)
	case '\'':
		p.parseSingleQuoted(i + 1)
	case '|':
		p.parseLiteralBlock(i+1, column)
	case '[', '{':
		p.parseEmptyCollection(i)
	default:
		if !p.canStartPlainScalar(i) {
			p.unsupported = true
			return
		}
		p.parsePlainScalar(i, column)
	}
}

func (p *parser) parseEmptyCollection(i int) {
	mark := p.text[i : i+2]
	if string(mark) != "[]" && string(mark) != "{}" {
		p.unsupported = true
		return
	}
	p.out = append(p.out, mark...)
	p.endLineAfter(i + 2)
}

// endLineAfter moves to the next line. Only a comment may follow the index.
func (p *parser) endLineAfter(i int) {
	end := p.skipBlanks(i)
	if p.text[end] != '\n' && (p.text[end] != '#' || end == i) {
		p.unsupported = true
		return
	}
	p.lineStart = p.findLineEnd(end) + 1
}
