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

	p := parser{scalarScanner: scalarScanner{text: text}, out: dst, depthLeft: maxDepth, resolve: resolve}
	p.skipToContent()
	p.parseBlockNode(-1)
	if p.skipToContent(); p.unsupported || p.column >= 0 {
		return dst, false
	}

	return p.out, true
}

// parser parses a document line by line.
type parser struct {
	scalarScanner
	out []byte
	// depthLeft is the number of further lists and mappings that may be opened.
	depthLeft int
	resolve   func(dst, scalar []byte) ([]byte, bool)
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

// parseBlockNode parses the node that begins in the next line. parent is the column of the
// enclosing node.
func (p *parser) parseBlockNode(parent int) {
	switch {
	case p.unsupported:
	case p.column <= parent:
		p.out = append(p.out, "null"...)
	case p.text.isSequenceEntry(p.first):
		p.parseBlockSequence(p.column)
	case p.text.findKeyColon(p.first) > 0:
		p.parseBlockMapping(p.column)
	default:
		p.unsupported = true
	}
}

// maxKeyLength is the maximum length of a supported key. Complete parsers reject keys from 1024
// characters on.
const maxKeyLength = 1000

// parseBlockMapping parses the mapping at a column, from its key in the next line.
func (p *parser) parseBlockMapping(column int) {
	p.openCollection('{')
	for first := true; !p.unsupported; first = false {
		line := p.lineStart
		colon := p.text.findKeyColon(p.first)
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
		if p.column != column || p.lineStart == line || !p.text.isSequenceEntry(p.first) {
			break
		}
	}

	p.closeCollection(']', column)
}

// parseSequenceEntry parses the content of an entry of a sequence after its dash.
func (p *parser) parseSequenceEntry(i, column int) {
	start := p.lineStart
	i = p.text.skipBlanks(i)
	switch {
	case p.text[i] == '\n' || p.text[i] == '#':
		p.parseValue(i, column, false)
	case p.text.isSequenceEntry(i):
		p.first, p.column = i, i-start
		p.parseBlockSequence(p.column)
	case p.text.findKeyColon(i) > 0:
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

// parseValue parses the value after a colon or a dash, which may continue in the lines below.
// column is that of the enclosing mapping or sequence.
func (p *parser) parseValue(i, column int, inMapping bool) {
	i = p.text.skipBlanks(i)
	switch p.text[i] {
	case '\n', '#':
		p.lineStart = p.text.findLineEnd(i) + 1
		p.skipToContent()
		if inMapping && p.column == column && p.text.isSequenceEntry(p.first) {
			column--
		}
		p.parseBlockNode(column)

	case '"':
		p.scanDoubleQuoted(i + 1)
		p.appendScalar()
	case '\'':
		p.scanSingleQuoted(i + 1)
		p.appendScalar()
	case '|':
		p.scanLiteralBlock(i+1, column)
		p.appendScalar()
	case '[', '{':
		p.parseEmptyCollection(i)
	default:
		if !p.text.canStartPlainScalar(i) {
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

// appendScalar appends the scalar in the buffer as a string.
func (p *parser) appendScalar() { p.out = jsontext.AppendQuoted(p.out, p.scalar) }

// parsePlainScalar parses a plain scalar. It continues in the lines below that are indented more
// than the column.
func (p *parser) parsePlainScalar(i, column int) {
	text, comment := p.scanPlainLine(i)
	if !comment && !p.unsupported {
		text = p.scanPlainLines(text, column)
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
