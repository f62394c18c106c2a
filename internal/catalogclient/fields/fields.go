// Package fields implements the parameter "fields" of the HTTP API of catalogs. It selects the
// parts of blobs that a client reads. The server omits all other parts. For servers that do not
// support the parameter, the client removes them from responses.
//
// The package works on the text of blobs. It only knows that schema, package and name identify a
// blob.
//
//	fields = wanted | unwanted
//	wanted = item *( "," item )               only these
//	unwanted = "-" item *( "," "-" item )     all but these
//	item = field [ "[" type "]" ]
//	field = a letter, digit or "_", then those, "-" and ".": the name of a member of the blob
//	type = any characters but "[", "]", "," and control characters
//
// An item with a type selects the elements of a list that are objects of that type, such as
// properties[olm.gvk]. Several items for the same list are combined.
package fields

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const (
	// maxParameterBytes and maxItems bound the parameter. Excluding a few types of properties
	// needs about 100 bytes.
	maxParameterBytes = 2000
	maxItems          = 64
)

// identifyingFields are the fields that identify a blob. They are always included.
var identifyingFields = []string{"schema", "package", "name"}

// Fields selects parts of blobs. Nil selects everything. It is immutable and safe for concurrent
// use.
type Fields struct {
	items []fieldItem
	// unwanted is set if the items are excluded.
	unwanted bool
	text     string
}

// fieldItem selects a field, or some elements of it.
type fieldItem struct {
	// name is in lower case, as the keys of blobs are compared without regard to case.
	name string
	// types are the quoted types of the selected elements. None selects the whole field.
	types [][]byte
}

// Parse parses the parameter. It returns nil for an empty text, which selects everything.
func Parse(text string) (*Fields, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxParameterBytes {
		return nil, fmt.Errorf("fields has %d bytes: at most %d are read", len(text), maxParameterBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("fields is not valid UTF-8")
	}

	parts := strings.Split(text, ",")
	if len(parts) > maxItems {
		return nil, fmt.Errorf("fields has %d items: at most %d are read", len(parts), maxItems)
	}

	f := &Fields{unwanted: strings.HasPrefix(parts[0], "-")}
	for _, part := range parts {
		rest, unwanted := strings.CutPrefix(part, "-")
		if unwanted != f.unwanted {
			return nil, fmt.Errorf("fields has items with and without %q: name either what is wanted or what is not", "-")
		}
		if err := f.parseAndAddItem(rest); err != nil {
			return nil, err
		}
	}

	f.text = f.formatCanonical()
	return f, nil
}

// parseAndAddItem parses and adds an item.
func (f *Fields) parseAndAddItem(text string) error {
	name, rest, typed := strings.Cut(text, "[")
	if !isValidFieldName(name) {
		return fmt.Errorf("fields: %q does not begin with the name of a field, such as entries or properties[olm.gvk]", text)
	}

	name = strings.ToLower(name)
	if slices.Contains(identifyingFields, name) {
		if f.unwanted || typed {
			return fmt.Errorf("fields: %q: schema, package and name are always given whole", text)
		}
		return nil
	}

	kind, closed := strings.CutSuffix(rest, "]")
	if typed && (!closed || kind == "" || strings.ContainsAny(kind, "[]") || strings.ContainsFunc(kind, unicode.IsControl)) {
		return fmt.Errorf("fields: %q: a type stands in brackets after the field, such as properties[olm.gvk]", text)
	}

	at := slices.IndexFunc(f.items, func(i fieldItem) bool { return i.name == name })
	if at < 0 {
		at = len(f.items)
		f.items = append(f.items, fieldItem{name: name})
	} else if len(f.items[at].types) == 0 {
		return nil // The whole field is named already.
	}

	if !typed {
		f.items[at].types = nil
		return nil
	}

	quoted := jsontext.AppendQuoted(nil, kind)
	if !f.items[at].selectsType(quoted) {
		f.items[at].types = append(f.items[at].types, quoted)
	}

	return nil
}

func isValidFieldName(name string) bool {
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		case i > 0 && (r == '-' || r == '.'):
		default:
			return false
		}
	}

	return name != ""
}

// formatCanonical returns the parameter with sorted items.
func (f *Fields) formatCanonical() string {
	sign := ""
	if f.unwanted {
		sign = "-"
	}

	var list []string
	for i := range f.items {
		it := &f.items[i]
		if len(it.types) == 0 {
			list = append(list, sign+it.name)
		}
		for _, quoted := range it.types {
			kind, _ := jsontext.Unquote(quoted) // It was quoted above.
			list = append(list, sign+it.name+"["+kind+"]")
		}
	}

	if len(list) == 0 {
		return "name"
	}

	slices.Sort(list)
	return strings.Join(list, ",")
}

// String returns the parameter in canonical form, which is equal for equivalent parameters. It is
// empty if everything is selected.
func (f *Fields) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Append appends the selected parts of a blob. The blob and the result are JSON objects in the
// form of jsontext.Compact, with members in the same order. Selected fields that the blob does
// not have are ignored. If the elements of a field are selected by type but the field is not a
// list, it is omitted.
func (f *Fields) Append(dst, blob []byte) []byte {
	if f == nil {
		return append(dst, blob...)
	}

	start := len(dst)
	dst = append(dst, '{')
	for key, value := range jsontext.Members(blob) {
		dst = f.appendSelected(dst, key, value)
	}

	if len(dst) > start+1 {
		dst = dst[:len(dst)-1] // The last comma.
	}

	return append(dst, '}')
}

// appendSelected appends the selected part of a member, followed by a comma.
func (f *Fields) appendSelected(dst, key, value []byte) []byte {
	it := f.findItemForKey(key)
	switch {
	case it == nil && f.unwanted, isIdentifyingField(key), it != nil && len(it.types) == 0 && !f.unwanted:
		return appendMemberAndComma(dst, key, value)
	case it == nil, len(it.types) == 0:
		return dst
	case value[0] != '[' && f.unwanted:
		return appendMemberAndComma(dst, key, value)
	case value[0] != '[':
		return dst
	}

	dst = append(append(dst, key...), ':', '[')
	empty := true
	for element := range jsontext.Elements(value) {
		if it.selectsType(quotedTypeOf(element)) == f.unwanted {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(dst, element...)
	}

	return append(dst, ']', ',')
}

func appendMemberAndComma(dst, key, value []byte) []byte {
	dst = append(append(dst, key...), ':')
	return append(append(dst, value...), ',')
}

// findItemForKey returns the item for a quoted key, or nil.
func (f *Fields) findItemForKey(key []byte) *fieldItem {
	for i := range f.items {
		if matchesQuotedKey(key, f.items[i].name) {
			return &f.items[i]
		}
	}
	return nil
}

func isIdentifyingField(key []byte) bool {
	return slices.ContainsFunc(identifyingFields, func(name string) bool { return matchesQuotedKey(key, name) })
}

// matchesQuotedKey reports whether a quoted key equals a name without regard to case.
func matchesQuotedKey(key []byte, name string) bool {
	return len(key) == len(name)+2 && strings.EqualFold(string(key[1:len(key)-1]), name)
}

// quotedTypeOf returns the type of an object as a JSON string, or nil if it has none.
func quotedTypeOf(element []byte) []byte {
	for key, value := range jsontext.Members(element) {
		if matchesQuotedKey(key, "type") {
			return value
		}
	}
	return nil
}

func (it *fieldItem) selectsType(quoted []byte) bool {
	return slices.ContainsFunc(it.types, func(t []byte) bool { return bytes.Equal(t, quoted) })
}
