// Package yamltext converts JSON to YAML, byte for byte as sigs.k8s.io/yaml does. It also
// converts the simple YAML that programs write to JSON. It does not decode values.
//
// It is not a complete YAML parser. It reports unsupported input, which the caller passes to a
// complete parser.
package yamltext

import (
	"bytes"
	"slices"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// Append appends a JSON value, in the form of jsontext.Compact, as a YAML document without a line
// "---". The keys of objects are in natural order, where "v9" is before "v10". Lists are not
// indented below their keys. Strings are plain where possible, literal blocks if they have line
// breaks, and quoted otherwise. They are folded after 80 columns at blanks.
//
// Integers of up to 64 bits keep their digits. Other numbers are written as the nearest float64.
func Append(dst, value []byte) []byte {
	e := emitters.Get().(*emitter)
	e.out, e.lineStart = dst, len(dst)
	e.indent, e.atIndentation, e.afterBlank = -1, true, true
	e.emitJSONValue(value, false)
	e.startIndentedLine()
	dst, e.out = e.out, nil
	if max(cap(e.text), cap(e.members)) > maxPooledBuffer {
		e.text, e.members = nil, nil
	}

	emitters.Put(e)
	return dst
}

// emitters pools emitters with their buffers.
var emitters = sync.Pool{New: func() any { return new(emitter) }}

const (
	// maxPooledBuffer is the maximum capacity of the buffers of a pooled emitter.
	maxPooledBuffer = 64 << 10
	// indentStep is the indentation of the content of an object or a list.
	indentStep = 2
	// foldWidth is the column after which text is folded.
	foldWidth = 80
)

// emitter writes one document.
type emitter struct {
	lineWriter
	// members are the members of the open objects.
	members []member
	// text is a buffer for a string without its escapes.
	text []byte
}

// member is a member of an object: its quoted key, its key for comparison, and its value.
type member struct{ quoted, key, value []byte }

// emitJSONValue writes a value. Lists that are values of a mapping are not indented.
func (e *emitter) emitJSONValue(value []byte, inMapping bool) {
	if len(value) == 0 {
		return
	}

	switch value[0] {
	case '{':
		e.emitMapping(value)
	case '[':
		e.emitSequence(value, inMapping)
	case '"':
		e.emitString(value, false)
	case 't', 'f', 'n':
		e.emitUnquoted(value)
	default:
		e.emitNumber(value)
	}
}

func (e *emitter) emitMapping(object []byte) {
	first := len(e.members)
	sorted := true
	for quoted, value := range jsontext.Members(object) {
		m := member{quoted: quoted, key: quoted[1 : len(quoted)-1], value: value}
		if bytes.IndexByte(m.key, '\\') >= 0 {
			m.key = jsontext.AppendUnquoted(nil, quoted)
		}
		if n := len(e.members); n > first && compareKeysNaturally(e.members[n-1].key, m.key) > 0 {
			sorted = false
		}
		e.members = append(e.members, m)
	}

	if len(e.members) == first {
		e.emitIndicator("{}")
		return
	}
	if !sorted {
		slices.SortStableFunc(e.members[first:], func(a, b member) int { return compareKeysNaturally(a.key, b.key) })
	}

	before := e.indent
	if e.indent += indentStep; before < 0 {
		e.indent = 0
	}

	for i := first; i < len(e.members); i++ {
		e.emitObjectMember(e.members[i])
	}

	e.indent = before
	clear(e.members[first:])
	e.members = e.members[:first]
}

// maxSimpleKey is the maximum length of a key that is written on one line with its value.
const maxSimpleKey = 128

func (e *emitter) emitObjectMember(m member) {
	e.startIndentedLine()
	if len(m.key) <= maxSimpleKey && !hasLineBreak(m.key) {
		e.emitString(m.quoted, true)
		e.out = append(e.out, ':')
		e.atIndentation = false
	} else {
		e.emitIndicator("?")
		e.emitString(m.quoted, false)
		e.startIndentedLine()
		e.emitIndicator(":")
	}

	e.afterBlank = false
	e.emitJSONValue(m.value, true)
}

func (e *emitter) emitSequence(list []byte, inMapping bool) {
	before := e.indent
	empty := true
	for element := range jsontext.Elements(list) {
		if empty {
			empty = false
			switch {
			case before < 0:
				e.indent = 0
			case !inMapping || e.atIndentation:
				e.indent += indentStep
			}
		}
		e.startIndentedLine()
		e.emitIndicator("-")
		e.emitJSONValue(element, false)
	}

	if empty {
		e.emitIndicator("[]")
	}

	e.indent = before
}
