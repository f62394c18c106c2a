package jsontext

import "iter"

// Members returns the members of a compact object: the keys as JSON strings, and the values. They
// are parts of the object. It returns none for a text that is not an object.
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

// Elements returns the elements of a compact list as parts of it. It returns none for a text that
// is not a list.
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

// Cursor traverses a compact value once. It enters objects and lists or skips them.
//
//	for more := c.Open(); more; more = c.More() {
//		key := c.Key() // in an object
//		value := c.Value()
//	}
//
// The text must be the output of Compact. For any other text the results are arbitrary parts of
// it, and the traversal still ends.
type Cursor struct {
	Text   []byte
	offset int
}

// Kind returns the first byte of the next value: '{', '[', '"', 't', 'f', 'n', '-' or a digit. It
// returns 0 at the end of the text.
func (c *Cursor) Kind() byte {
	if c.offset < len(c.Text) {
		return c.Text[c.offset]
	}
	return 0
}

// Open enters the next object or list, and reports whether it is not empty.
func (c *Cursor) Open() bool {
	c.offset++
	switch c.Kind() {
	case 0:
		c.abortTraversal()
		return false
	case '}', ']':
		c.offset++
		return false
	}

	return true
}

// More moves past the comma or the closing bracket after a value. It reports whether another
// value follows in the object or list.
func (c *Cursor) More() bool {
	kind := c.Kind()
	c.offset++
	switch kind {
	case ',':
		if c.offset < len(c.Text) {
			return true
		}
		c.abortTraversal()
	case '}', ']':
	default:
		c.abortTraversal()
	}

	return false
}

// abortTraversal ends the traversal because the text is not compact.
func (c *Cursor) abortTraversal() { c.offset = len(c.Text) + 1 }

// Done reports whether the whole text was traversed and was one value.
func (c *Cursor) Done() bool { return c.offset == len(c.Text) }

// Key moves past the next key and its colon. It returns the key as a JSON string.
func (c *Cursor) Key() []byte {
	key := c.Value()
	c.offset++
	return key
}

// Value moves past the next value and returns it.
func (c *Cursor) Value() []byte {
	start := min(c.offset, len(c.Text))
	c.offset = findValueEnd(c.Text, start)
	return c.Text[start:c.offset:c.offset]
}

// findValueEnd returns the index after the value at an index of a compact text.
func findValueEnd(text []byte, i int) int {
	if i < len(text) && text[i] == '"' {
		return findStringEnd(text, i+1)
	}

	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = findStringEnd(text, i+1)
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
