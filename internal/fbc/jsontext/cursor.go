package jsontext

import "iter"

// Members returns the members of a compact object: the keys as JSON strings, and the
// values. They are pieces of the object. A text that is not an object has none.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := Cursor{Text: object}
		if c.Kind() != '{' {
			return
		}
		for more := c.Open(); more; more = c.More() {
			key := c.Key()
			if !yield(key, c.Value()) {
				return
			}
		}
	}
}

// Elements returns the elements of a compact list as pieces of it. A text that is not a
// list has none.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c := Cursor{Text: list}
		if c.Kind() != '[' {
			return
		}
		for more := c.Open(); more; more = c.More() {
			if !yield(c.Value()) {
				return
			}
		}
	}
}

// Cursor goes once through a compact value: into its objects and lists, or past them.
//
//	for more := c.Open(); more; more = c.More() {
//		key := c.Key() // in an object
//		value := c.Value()
//	}
//
// The text is to be one that Compact gives. In another, the pieces may be any, but they
// are pieces of it and they come to an end.
type Cursor struct {
	Text []byte
	at   int
}

// Kind is the first byte of the next value: '{', '[', '"', 't', 'f', 'n', '-' or a
// digit. It is 0 at the end of the text.
func (c *Cursor) Kind() byte {
	if c.at < len(c.Text) {
		return c.Text[c.at]
	}
	return 0
}

// Open goes into the object or list that comes next, and tells whether it has anything
// in it.
func (c *Cursor) Open() bool {
	c.at++
	switch c.Kind() {
	case 0:
		c.lost()
		return false
	case '}', ']':
		c.at++
		return false
	}

	return true
}

// More goes on after a value in an object or a list, or out of it: it tells whether there
// is another.
func (c *Cursor) More() bool {
	kind := c.Kind()
	c.at++
	switch kind {
	case ',':
		if c.at < len(c.Text) {
			return true
		}
		c.lost()
	case '}', ']':
	default:
		c.lost()
	}

	return false
}

// lost notes that the text is not compact: nothing comes after it.
func (c *Cursor) lost() { c.at = len(c.Text) + 1 }

// Done reports whether all of the text was gone through, and it was one value that Open,
// More, Key and Value could follow.
func (c *Cursor) Done() bool { return c.at == len(c.Text) }

// Key goes past the key that comes next, and the colon, and gives the key as a JSON
// string.
func (c *Cursor) Key() []byte {
	key := c.Value()
	c.at++
	return key
}

// Value goes past the value that comes next and gives it.
func (c *Cursor) Value() []byte {
	start := min(c.at, len(c.Text))
	c.at = valueEnd(c.Text, start)
	return c.Text[start:c.at:c.at]
}

// valueEnd returns the index after the value at an index of a compact text.
func valueEnd(text []byte, i int) int {
	if i < len(text) && text[i] == '"' {
		return stringEnd(text, i+1)
	}

	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = stringEnd(text, i+1)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
		i++
	}

	return len(text)
}
