// Package fields is the parameter "fields" of the catalogs' HTTP contract: which parts of
// its blobs a client wants to read. Server and client use it, the one to leave out the
// rest before it is sent, and the other to leave it out of the answers of servers that do
// not know the parameter.
//
// It works on the text of blobs, and knows nothing of their meaning but that schema,
// package and name say what a blob is.
//
//	fields = wanted | unwanted
//	wanted = item *( "," item )               only these
//	unwanted = "-" item *( "," "-" item )     all but these
//	item = field [ "[" type "]" ]
//	field = a letter, digit or "_", then those, "-" and ".": the name of a member of the blob
//	type = any characters but "[", "]", "," and control characters
//
// An item with a type means the elements of a list that are objects with that type, such
// as properties[olm.gvk]. The items of one list add up.
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
	// maxBytes and maxItems bound the parameter: a query for all but a few types of
	// properties takes about 100 bytes.
	maxBytes = 2000
	maxItems = 64
)

// always are the fields that say what a blob is. They are in every answer.
var always = []string{"schema", "package", "name"}

// Fields says which parts of blobs are wanted. Nil means all of them. It is not changed
// after Parse, and safe for concurrent use.
type Fields struct {
	items []item
	// unwanted says that the items are those to leave out.
	unwanted bool
	text     string
}

// item is a field, whole or some elements of it.
type item struct {
	// name is in lower case: the keys of blobs are compared without regard to case, as
	// they are when blobs are read.
	name string
	// types are the quoted types of the elements. None means the whole field.
	types [][]byte
}

// Parse reads the parameter. An empty text gives nil, which means that all is wanted.
func Parse(text string) (*Fields, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("fields has %d bytes: at most %d are read", len(text), maxBytes)
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
		if err := f.add(rest); err != nil {
			return nil, err
		}
	}

	f.text = f.canonical()
	return f, nil
}

// add takes in an item.
func (f *Fields) add(text string) error {
	name, rest, typed := strings.Cut(text, "[")
	if !isName(name) {
		return fmt.Errorf("fields: %q does not begin with the name of a field, such as entries or properties[olm.gvk]", text)
	}

	name = strings.ToLower(name)
	if slices.Contains(always, name) {
		if f.unwanted || typed {
			return fmt.Errorf("fields: %q: schema, package and name are always given whole", text)
		}
		return nil
	}

	kind, closed := strings.CutSuffix(rest, "]")
	if typed && (!closed || kind == "" || strings.ContainsAny(kind, "[]") || strings.ContainsFunc(kind, unicode.IsControl)) {
		return fmt.Errorf("fields: %q: a type stands in brackets after the field, such as properties[olm.gvk]", text)
	}

	at := slices.IndexFunc(f.items, func(i item) bool { return i.name == name })
	if at < 0 {
		at = len(f.items)
		f.items = append(f.items, item{name: name})
	} else if len(f.items[at].types) == 0 {
		return nil // The whole field is named already.
	}

	if !typed {
		f.items[at].types = nil
		return nil
	}

	quoted := jsontext.AppendQuoted(nil, kind)
	if !f.items[at].has(quoted) {
		f.items[at].types = append(f.items[at].types, quoted)
	}

	return nil
}

func isName(name string) bool {
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

// canonical sorts the items.
func (f *Fields) canonical() string {
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

// String returns the parameter in one form for all that mean the same. It is empty when all
// is wanted.
func (f *Fields) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Append appends a blob without what is not wanted. The blob is a JSON object in the form
// of jsontext.Compact, and so is what is appended. A blob has its members in their order;
// one that does not have a field that is wanted is given without it. Of a field that is
// wanted by the types of its elements nothing is given when it is not a list.
func (f *Fields) Append(dst, blob []byte) []byte {
	if f == nil {
		return append(dst, blob...)
	}

	start := len(dst)
	dst = append(dst, '{')
	for key, value := range jsontext.Members(blob) {
		dst = f.member(dst, key, value)
	}

	if len(dst) > start+1 {
		dst = dst[:len(dst)-1] // The last comma.
	}

	return append(dst, '}')
}

// member appends a member and a comma, as far as it is wanted.
func (f *Fields) member(dst, key, value []byte) []byte {
	it := f.item(key)
	switch {
	case it == nil && f.unwanted, isAlways(key), it != nil && len(it.types) == 0 && !f.unwanted:
		return appendMember(dst, key, value)
	case it == nil, len(it.types) == 0:
		return dst
	case value[0] != '[' && f.unwanted:
		return appendMember(dst, key, value)
	case value[0] != '[':
		return dst
	}

	dst = append(append(dst, key...), ':', '[')
	empty := true
	for element := range jsontext.Elements(value) {
		if it.has(typeOf(element)) == f.unwanted {
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

func appendMember(dst, key, value []byte) []byte {
	dst = append(append(dst, key...), ':')
	return append(append(dst, value...), ',')
}

// item returns the item of a quoted key, nil when there is none.
func (f *Fields) item(key []byte) *item {
	for i := range f.items {
		if isKey(key, f.items[i].name) {
			return &f.items[i]
		}
	}
	return nil
}

func isAlways(key []byte) bool {
	return slices.ContainsFunc(always, func(name string) bool { return isKey(key, name) })
}

// isKey reports whether a quoted key is a name, without regard to case.
func isKey(key []byte, name string) bool {
	return len(key) == len(name)+2 && strings.EqualFold(string(key[1:len(key)-1]), name)
}

// typeOf returns the type of an object as it is quoted, nil when it has none.
func typeOf(element []byte) []byte {
	for key, value := range jsontext.Members(element) {
		if isKey(key, "type") {
			return value
		}
	}
	return nil
}

func (it *item) has(quoted []byte) bool {
	return slices.ContainsFunc(it.types, func(t []byte) bool { return bytes.Equal(t, quoted) })
}
