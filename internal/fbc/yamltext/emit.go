// Package yamltext turns JSON into YAML, byte for byte as sigs.k8s.io/yaml does, and the
// plain kind of YAML that programs write back into JSON. It makes no values of either.
//
// It is no parser of YAML: what it does not know for sure it leaves to one.
package yamltext

import (
	"bytes"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// Append appends a JSON value, in the form that jsontext.Compact gives, as a YAML
// document without a line "---": the keys of objects in natural order, where "v9" is
// before "v10"; lists not indented below their keys; strings plain where they can be, as
// literal blocks where they have line breaks, else in quotes, and folded after 80
// columns at blanks.
//
// Integers of up to 64 bits keep their digits. Other numbers are written as the float64
// next to them.
func Append(dst, value []byte) []byte {
	e := pool.Get().(*emitter)
	e.out, e.line = dst, len(dst)
	e.indent, e.indention, e.whitespace = -1, true, true
	e.node(value, false)
	e.nextLine()
	dst, e.out = e.out, nil
	if max(cap(e.text), cap(e.members)) > maxKept {
		e.text, e.members = nil, nil
	}

	pool.Put(e)
	return dst
}

// pool keeps what is used again for each value, up to a length.
var pool = sync.Pool{New: func() any { return new(emitter) }}

const (
	maxKept = 64 << 10
	// step is how far the content of an object or a list is indented.
	step = 2
	// width is the column after which text is folded.
	width = 80
)

// emitter writes one document. What is needed before something, a line break or a blank,
// depends on what was written last.
type emitter struct {
	out []byte
	// line is where in out the last line begins.
	line int
	// indent is where lines begin, -1 before the first.
	indent int
	// indention says that the line has nothing but blanks and indicators so far, and
	// whitespace that what was written last is as good as a blank.
	indention, whitespace bool

	// members are those of the objects that are open.
	members []member
	// text is a string without its escapes.
	text []byte
}

// member is a member of an object: its key, quoted and as it is compared, and its value.
type member struct{ quoted, key, value []byte }

// node writes a value. Lists that are values in a mapping are not indented.
func (e *emitter) node(value []byte, inMapping bool) {
	if len(value) == 0 {
		return
	}

	switch value[0] {
	case '{':
		e.mapping(value)
	case '[':
		e.sequence(value, inMapping)
	case '"':
		e.str(value, false)
	case 't', 'f', 'n':
		e.word(value)
	default:
		e.number(value)
	}
}

// mapping writes an object.
func (e *emitter) mapping(object []byte) {
	first := len(e.members)
	sorted := true
	for quoted, value := range jsontext.Members(object) {
		m := member{quoted: quoted, key: quoted[1 : len(quoted)-1], value: value}
		if bytes.IndexByte(m.key, '\\') >= 0 {
			m.key = jsontext.AppendUnquoted(nil, quoted)
		}
		if n := len(e.members); n > first && compareKeys(e.members[n-1].key, m.key) > 0 {
			sorted = false
		}
		e.members = append(e.members, m)
	}

	if len(e.members) == first {
		e.indicator("{}")
		return
	}
	if !sorted {
		slices.SortStableFunc(e.members[first:], func(a, b member) int { return compareKeys(a.key, b.key) })
	}

	before := e.indent
	if e.indent += step; before < 0 {
		e.indent = 0
	}

	for i := first; i < len(e.members); i++ {
		e.member(e.members[i])
	}

	e.indent = before
	clear(e.members[first:])
	e.members = e.members[:first]
}

// longKey is the length of the longest key that stands on one line with its value.
const longKey = 128

// member writes a member of an object.
func (e *emitter) member(m member) {
	e.nextLine()
	if len(m.key) <= longKey && !hasBreak(m.key) {
		e.str(m.quoted, true)
		e.out = append(e.out, ':')
		e.indention = false
	} else {
		e.indicator("?")
		e.str(m.quoted, false)
		e.nextLine()
		e.indicator(":")
	}

	e.whitespace = false
	e.node(m.value, true)
}

// sequence writes a list.
func (e *emitter) sequence(list []byte, inMapping bool) {
	before := e.indent
	empty := true
	for element := range jsontext.Elements(list) {
		if empty {
			empty = false
			switch {
			case before < 0:
				e.indent = 0
			case !inMapping || e.indention:
				e.indent += step
			}
		}
		e.nextLine()
		e.indicator("-")
		e.node(element, false)
	}

	if empty {
		e.indicator("[]")
	}

	e.indent = before
}

// nextLine goes to where a line begins, unless it is there.
func (e *emitter) nextLine() {
	indent := max(0, e.indent)
	column := e.column()
	if !e.indention || column > indent || column == indent && !e.whitespace {
		e.breakLine()
		column = 0
	}

	e.pad(indent - column)
	e.indention, e.whitespace = true, true
}

// breakLine ends a line.
func (e *emitter) breakLine() {
	e.out = append(e.out, '\n')
	e.line = len(e.out)
}

const blanks = "                                                                "

func (e *emitter) pad(n int) {
	for ; n > len(blanks); n -= len(blanks) {
		e.out = append(e.out, blanks...)
	}
	if n > 0 {
		e.out = append(e.out, blanks[:n]...)
	}
}

// column returns how many characters the line has.
func (e *emitter) column() int { return utf8.RuneCount(e.out[e.line:]) }

// indicator writes a mark, or the two of an empty object or list, which end what was
// begun.
func (e *emitter) indicator(mark string) {
	e.blank()
	e.out = append(e.out, mark...)
	e.whitespace = false
	e.indention = e.indention && len(mark) == 1
}

// blank puts a blank before what comes next if it needs one.
func (e *emitter) blank() {
	if !e.whitespace {
		e.out = append(e.out, ' ')
	}
}

// word writes a word that stands for itself.
func (e *emitter) word(text []byte) {
	e.blank()
	e.out = append(e.out, text...)
	e.whitespace, e.indention = false, false
}
