package yamltext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// AppendJSON appends a YAML document, without a line "---", as compact JSON: its keys in
// their order, and those that stand twice twice. It reads the YAML that programs write:
// block mappings and sequences; plain and quoted scalars, folded or not; literal blocks;
// comments. It is not ok when there is anything else, or an error, or lists and mappings
// are nested deeper than maxDepth: then the document is one for a real parser.
//
// A plain scalar that is not a text is passed to resolve, but for the usual forms of
// null, booleans and integers. It appends the value as JSON, or is not ok.
func AppendJSON(dst, text []byte, maxDepth int, resolve func(dst, scalar []byte) ([]byte, bool)) (out []byte, ok bool) {
	if !isClean(text) {
		return dst, false
	}

	p := parser{text: text, out: dst, depth: maxDepth, resolve: resolve}
	p.nextLine()
	p.node(-1)
	if p.nextLine(); p.odd || p.column >= 0 {
		return dst, false
	}

	return p.out, true
}

// parser reads a document line by line.
type parser struct {
	text []byte
	out  []byte
	// at is where the next line begins that was not read.
	at int
	// first is the first character of that line that is no blank, once nextLine was
	// called, and column where it stands; -1 at the end of the text.
	first, column int
	// depth is how many more lists and mappings may be opened.
	depth   int
	resolve func(dst, scalar []byte) ([]byte, bool)
	// odd says that there is something that is not read here.
	odd bool
	// scalar is used again for each that is not a piece of the text.
	scalar []byte
}

// isClean reports whether a text has no characters but printable ones, line breaks of one
// kind, and tabs, and ends with a line break.
func isClean(text []byte) bool {
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}

	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := uncommon(binary.LittleEndian.Uint64(text[i : i+8]))
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

// nextLine goes to the next line that has something in it but a comment.
func (p *parser) nextLine() {
	for p.at < len(p.text) {
		p.first = p.at
		for p.text[p.first] == ' ' { // The text ends with a line break.
			p.first++
		}

		switch p.text[p.first] {
		case '\n':
			p.at = p.first + 1
			continue
		case '#':
			p.at = p.lineEnd(p.first) + 1
			continue
		case '\t':
			p.odd = true
		}

		p.column = p.first - p.at
		if p.column == 0 && (bytes.HasPrefix(p.text[p.at:], []byte("---")) || bytes.HasPrefix(p.text[p.at:], []byte("..."))) {
			p.odd = true
		}

		return
	}

	p.column = -1
}

// lineEnd returns the index of the line break at or after an index.
func (p *parser) lineEnd(i int) int { return i + bytes.IndexByte(p.text[i:], '\n') }

// node reads what begins in the next line, which is in something that stands in a column.
func (p *parser) node(parent int) {
	switch {
	case p.odd:
	case p.column <= parent:
		p.out = append(p.out, "null"...)
	case p.isEntry(p.first):
		p.sequence(p.column)
	case p.colon(p.first) > 0:
		p.mapping(p.column)
	default:
		p.odd = true
	}
}

// isEntry reports whether an entry of a sequence begins at an index.
func (p *parser) isEntry(i int) bool {
	return p.text[i] == '-' && (p.text[i+1] == ' ' || p.text[i+1] == '\n')
}

// colon returns the index of the colon after the key at an index, and 0 when there is none.
func (p *parser) colon(i int) int {
	if b := p.text[i]; b == '"' || b == '\'' {
		line := p.text[i:p.lineEnd(i)]
		end := 1 + bytes.IndexByte(line[1:], b)
		if end == 0 || bytes.IndexByte(line[:end], '\\') >= 0 {
			return 0
		}
		if after := line[end+1:]; len(after) == 0 || after[0] != ':' || len(after) > 1 && after[1] != ' ' {
			return 0
		}

		return i + end + 1
	}

	if !p.startsPlain(i) {
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

// startsPlain reports whether a scalar without quotes can begin at an index.
func (p *parser) startsPlain(i int) bool {
	switch p.text[i] {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '\t', '\n', ' ':
		return false
	case '-', '?', ':':
		return p.text[i+1] != ' ' && p.text[i+1] != '\n' && p.text[i+1] != '\t'
	}
	return true
}

// longestKey is the length of the longest key that is read here. Parsers refuse them from
// 1024 characters on.
const longestKey = 1000

// mapping reads the mapping whose keys stand in a column, from the one in the next line on.
func (p *parser) mapping(column int) {
	p.open('{')
	for first := true; !p.odd; first = false {
		line := p.at
		colon := p.colon(p.first)
		if colon == 0 || colon-p.first > longestKey {
			p.odd = true
			return
		}
		if !first {
			p.out = append(p.out, ',')
		}

		p.key(p.text[p.first:colon])
		p.value(colon+1, column, true)
		p.nextLine()
		if p.column != column || p.at == line {
			break
		}
	}

	p.shut('}', column)
}

// key reads a key of a mapping.
func (p *parser) key(text []byte) {
	if text[0] == '"' || text[0] == '\'' {
		text = text[1 : len(text)-1]
	} else if bytes.IndexByte(text, '\t') >= 0 || bytes.HasSuffix(text, []byte(" ")) || bytes.Contains(text, []byte(" #")) || isAmbiguous(text) {
		p.odd = true
	}
	p.out = append(jsontext.AppendQuoted(p.out, text), ':')
}

// sequence reads the sequence whose entries begin in a column, from the one in the next
// line on.
func (p *parser) sequence(column int) {
	p.open('[')
	for first := true; !p.odd; first = false {
		if !first {
			p.out = append(p.out, ',')
		}

		line := p.at
		p.entry(p.first+1, column)
		p.nextLine()
		if p.column != column || p.at == line || !p.isEntry(p.first) {
			break
		}
	}

	p.shut(']', column)
}

// entry reads what stands after the dash of an entry of a sequence.
func (p *parser) entry(i, column int) {
	start := p.at
	i = p.skipBlanks(i)
	switch {
	case p.text[i] == '\n' || p.text[i] == '#':
		p.value(i, column, false)
	case p.isEntry(i):
		p.first, p.column = i, i-start
		p.sequence(p.column)
	case p.colon(i) > 0:
		p.first, p.column = i, i-start
		p.mapping(p.column)
	default:
		p.value(i, column, false)
	}
}

// open goes into a mapping or a sequence.
func (p *parser) open(mark byte) {
	if p.depth--; p.depth < 0 {
		p.odd = true
	}
	p.out = append(p.out, mark)
}

// shut goes out of a mapping or a sequence in a column, which the next line ends.
func (p *parser) shut(mark byte, column int) {
	p.depth++
	p.out = append(p.out, mark)
	p.odd = p.odd || p.column > column
}

func (p *parser) skipBlanks(i int) int {
	for p.text[i] == ' ' {
		i++
	}
	return i
}

// value reads what stands after a colon or a dash, of a mapping or a sequence in a column,
// and maybe in the lines below.
func (p *parser) value(i, column int, inMapping bool) {
	i = p.skipBlanks(i)
	switch p.text[i] {
	case '\n', '#':
		p.at = p.lineEnd(i) + 1
		p.nextLine()
		if inMapping && p.column == column && p.isEntry(p.first) {
			column--
		}
		p.node(column)

	case '"':
		p.double(i + 1)
	case '\'':
		p.single(i + 1)
	case '|':
		p.literal(i+1, column)
	case '[', '{':
		p.empty(i)
	default:
		if !p.startsPlain(i) {
			p.odd = true
			return
		}
		p.plain(i, column)
	}
}

// empty reads a list or an object with nothing in it.
func (p *parser) empty(i int) {
	mark := p.text[i : i+2]
	if string(mark) != "[]" && string(mark) != "{}" {
		p.odd = true
		return
	}
	p.out = append(p.out, mark...)
	p.endLine(i + 2)
}

// endLine goes to the next line from an index after which there is nothing but a comment.
func (p *parser) endLine(i int) {
	end := p.skipBlanks(i)
	if p.text[end] != '\n' && (p.text[end] != '#' || end == i) {
		p.odd = true
		return
	}
	p.at = p.lineEnd(end) + 1
}
