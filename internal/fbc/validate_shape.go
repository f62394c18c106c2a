package fbc

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// shape reports whether a JSON value can be read into a Go type, without reading it into
// one: a catalog is mostly long texts, of which nothing is kept. What it says is what
// encoding/json would say of a compact value; why a value does not fit is asked of
// encoding/json, which then reads it.
type shape struct {
	kind shapeKind
	// element is the shape of what is in a list or a map.
	element *shape
	// fields of an object.
	fields []field
	// bits of a whole number.
	bits int
}

// field is one of an object.
type field struct {
	name  string
	shape *shape
}

type shapeKind byte

const (
	anyShape shapeKind = iota
	textShape
	boolShape
	wholeShape
	listShape
	mapShape
	objectShape
)

// shapeOf returns the shape of a type that is made of structs, lists, maps, texts, whole
// numbers, booleans and raw values.
func shapeOf(t reflect.Type) *shape {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &shape{kind: anyShape}
	}

	switch t.Kind() {
	case reflect.String:
		return &shape{kind: textShape}
	case reflect.Bool:
		return &shape{kind: boolShape}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &shape{kind: wholeShape, bits: t.Bits()}
	case reflect.Map:
		return &shape{kind: mapShape, element: shapeOf(t.Elem())}
	case reflect.Slice:
		return &shape{kind: listShape, element: shapeOf(t.Elem())}
	case reflect.Struct:
		s := &shape{kind: objectShape}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				s.fields = append(s.fields, field{name: name, shape: shapeOf(f.Type)})
			}
		}
		return s
	}

	return &shape{kind: anyShape}
}

// shapeFor returns the shape of a type, which is looked at when it is first asked for.
func shapeFor[T any]() func() *shape {
	return sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[T]()) })
}

// fits goes past the next value and tells whether it has the shape. It stops within the
// value when it has not.
func (s *shape) fits(c *jsontext.Cursor) bool {
	kind := c.Kind()
	switch {
	case kind == 'n', s.kind == anyShape:
		// null leaves any field as it is.
		c.Value()
		return true
	case s.kind == textShape:
		c.Value()
		return kind == '"'
	case s.kind == boolShape:
		c.Value()
		return kind == 't' || kind == 'f'
	case s.kind == wholeShape:
		_, err := strconv.ParseInt(string(c.Value()), 10, s.bits)
		return err == nil
	case s.kind == listShape:
		return kind == '[' && s.listFits(c)
	case s.kind == mapShape:
		return kind == '{' && s.mapFits(c)
	}

	return kind == '{' && s.each(c, func(f *field) bool { return f.shape.fits(c) })
}

func (s *shape) listFits(c *jsontext.Cursor) bool {
	for more := c.Open(); more; more = c.More() {
		if !s.element.fits(c) {
			return false
		}
	}
	return true
}

func (s *shape) mapFits(c *jsontext.Cursor) bool {
	for more := c.Open(); more; more = c.More() {
		c.Key()
		if !s.element.fits(c) {
			return false
		}
	}
	return true
}

// field returns the field that a key, a JSON string, stands for: that of its name, or else
// of its name but for the case. It is nil when there is none.
func (s *shape) field(key []byte) *field {
	if len(key) < 2 {
		return nil
	}

	inner := key[1 : len(key)-1]
	for i := range s.fields {
		if s.fields[i].name == string(inner) {
			return &s.fields[i]
		}
	}

	name, err := jsontext.Unquote(key)
	if err != nil {
		return nil
	}

	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name, name) {
			return &s.fields[i]
		}
	}

	return nil
}

// each goes through the next value, an object, and calls visit for each field, which is to
// go past its value. It tells whether the value is an object or null and visit said true
// of all.
func (s *shape) each(c *jsontext.Cursor, visit func(*field) bool) bool {
	if kind := c.Kind(); kind != '{' {
		c.Value()
		return kind == 'n'
	}

	for more := c.Open(); more; more = c.More() {
		if f := s.field(c.Key()); f == nil {
			c.Value()
		} else if !visit(f) {
			return false
		}
	}

	return true
}

// texts goes through the next value, an object whose fields are all texts, and puts them
// where they are to go, in the order of the fields. It tells whether the value fits.
func (s *shape) texts(c *jsontext.Cursor, into ...*string) bool {
	return s.each(c, func(f *field) bool {
		for i := range s.fields {
			if f == &s.fields[i] {
				return readText(c, into[i])
			}
		}
		return false
	})
}

// readText goes past the next value and tells whether it is a text or null. If it is a
// text it is put where it is to go.
func readText(c *jsontext.Cursor, into *string) bool {
	value := c.Value()
	if len(value) < 2 || value[0] != '"' {
		return len(value) > 0 && value[0] == 'n'
	}
	text, err := jsontext.Unquote(value)
	*into = text
	return err == nil
}
