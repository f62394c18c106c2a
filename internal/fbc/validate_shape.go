package fbc

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// shape describes the JSON values that can be unmarshaled into a Go type. It checks a value
// without unmarshaling it, as a catalog consists mostly of long strings that are not kept. Its
// result for a compact value equals that of encoding/json. If a value does not fit, the caller
// unmarshals it with encoding/json to get the error.
type shape struct {
	kind shapeKind
	// element is the shape of the elements of a list or a map.
	element *shape
	// fields are the fields of an object.
	fields []shapeField
	// bits is the size of an integer.
	bits int
}

type shapeField struct {
	name  string
	shape *shape
}

type shapeKind byte

const (
	anyShape shapeKind = iota
	stringShape
	boolShape
	integerShape
	listShape
	mapShape
	objectShape
)

// newShapeOfType returns the shape of a type that consists of structs, lists, maps, strings,
// integers, booleans and raw values.
func newShapeOfType(t reflect.Type) *shape {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &shape{kind: anyShape}
	}

	switch t.Kind() {
	case reflect.String:
		return &shape{kind: stringShape}
	case reflect.Bool:
		return &shape{kind: boolShape}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &shape{kind: integerShape, bits: t.Bits()}
	case reflect.Map:
		return &shape{kind: mapShape, element: newShapeOfType(t.Elem())}
	case reflect.Slice:
		return &shape{kind: listShape, element: newShapeOfType(t.Elem())}
	case reflect.Struct:
		s := &shape{kind: objectShape}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				s.fields = append(s.fields, shapeField{name: name, shape: newShapeOfType(f.Type)})
			}
		}
		return s
	}

	return &shape{kind: anyShape}
}

// newLazyShapeOfType returns a function that computes the shape of a type on first use.
func newLazyShapeOfType[T any]() func() *shape {
	return sync.OnceValue(func() *shape { return newShapeOfType(reflect.TypeFor[T]()) })
}

// scanMatchingValue moves past the next value and reports whether it has the shape. If it does
// not, the cursor stops within the value.
func (s *shape) scanMatchingValue(c *jsontext.Cursor) bool {
	kind := c.Kind()
	switch {
	case kind == 'n', s.kind == anyShape:
		// null leaves any field unchanged.
		c.Value()
		return true
	case s.kind == stringShape:
		c.Value()
		return kind == '"'
	case s.kind == boolShape:
		c.Value()
		return kind == 't' || kind == 'f'
	case s.kind == integerShape:
		_, err := strconv.ParseInt(string(c.Value()), 10, s.bits)
		return err == nil
	case s.kind == listShape:
		return kind == '[' && s.scanListElements(c)
	case s.kind == mapShape:
		return kind == '{' && s.scanMapElements(c)
	}

	return kind == '{' && s.scanObjectFields(c, func(f *shapeField) bool { return f.shape.scanMatchingValue(c) })
}

func (s *shape) scanListElements(c *jsontext.Cursor) bool {
	for more := c.Open(); more; more = c.More() {
		if !s.element.scanMatchingValue(c) {
			return false
		}
	}
	return true
}

func (s *shape) scanMapElements(c *jsontext.Cursor) bool {
	for more := c.Open(); more; more = c.More() {
		c.Key()
		if !s.element.scanMatchingValue(c) {
			return false
		}
	}
	return true
}

// findFieldByKey returns the field for a key, which is a JSON string. An exact match wins over one
// that differs in case. It returns nil if there is none.
func (s *shape) findFieldByKey(key []byte) *shapeField {
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

// scanObjectFields moves past the next value, an object, and calls visit for each known field.
// visit must move past the field's value. scanObjectFields reports whether the value is null, or
// an object for which all calls of visit returned true.
func (s *shape) scanObjectFields(c *jsontext.Cursor, visit func(*shapeField) bool) bool {
	if kind := c.Kind(); kind != '{' {
		c.Value()
		return kind == 'n'
	}

	for more := c.Open(); more; more = c.More() {
		if f := s.findFieldByKey(c.Key()); f == nil {
			c.Value()
		} else if !visit(f) {
			return false
		}
	}

	return true
}

// scanStringFields moves past the next value, an object whose fields are all strings, and stores
// the fields in into, in their order. It reports whether the value fits.
func (s *shape) scanStringFields(c *jsontext.Cursor, into ...*string) bool {
	return s.scanObjectFields(c, func(f *shapeField) bool {
		for i := range s.fields {
			if f == &s.fields[i] {
				return scanStringInto(c, into[i])
			}
		}
		return false
	})
}

// scanStringInto moves past the next value and reports whether it is a string or null. It stores a
// string in into.
func scanStringInto(c *jsontext.Cursor, into *string) bool {
	value := c.Value()
	if len(value) < 2 || value[0] != '"' {
		return len(value) > 0 && value[0] == 'n'
	}
	text, err := jsontext.Unquote(value)
	*into = text
	return err == nil
}
