// Package jsontext works on the text of JSON values: it checks them and brings them
// into one canonical form, indents them, and cuts objects and lists into their parts.
//
// It holds no values: whatever it gives is a piece of a text, so that a caller decodes
// only what it needs. What the values mean is the business of package fbc.
package jsontext

import (
	"bytes"
	"sync"
)

// DefaultDepth is how deep objects and lists may be nested where no limit is given: as
// deep as encoding/json allows.
const DefaultDepth = 10_000

// Compact appends the canonical form of the JSON value that src begins with, and gives
// the number of bytes of src that the value and the blanks before it take. What follows
// the value is not looked at, but for the byte that ends a number.
//
// The canonical form is what encoding/json makes of the value, decoded into an any and
// encoded again without the escapes of HTML: no blanks, the keys of each object sorted
// by their bytes and each there once (the last of those that are spelled alike counts),
// strings with no more escapes than needed, and U+FFFD for what is not UTF-8. But for
// numbers: they stay as they are written, so that none loses digits.
//
// An object or a list in more than maxDepth others is refused with an error that is
// ErrTooDeep; 0 means DefaultDepth. Every error is a *SyntaxError, and dst is then
// returned at its former length.
func Compact(dst, src []byte, maxDepth int) (out []byte, n int, err error) {
	c := pool.Get().(*compactor)
	c.begin(dst, src, maxDepth)
	end := c.value(c.blank(0))
	out, n, err = c.finish(len(dst), end)
	c.release()
	return out, n, err
}

// Member is a member of an object: the key as a JSON string, and its value.
type Member struct{ Key, Value []byte }

// CompactObject does as Compact for a value that has to be an object, and gives the
// members of its canonical form as pieces of out, appended to members.
func CompactObject(dst, src []byte, maxDepth int, members []Member) (out []byte, n int, list []Member, err error) {
	c := pool.Get().(*compactor)
	c.begin(dst, src, maxDepth)
	start := c.blank(0)
	var end int
	if start < len(src) && src[start] == '{' {
		c.keep = true
		end = c.object(start)
	} else {
		end = c.fail(start, "looking for beginning of object")
	}

	out, n, err = c.finish(len(dst), end)
	if err == nil {
		for i, m := range c.members {
			// The comma or the brace comes after the value.
			next := len(out) - 1
			if i+1 < len(c.members) {
				next = c.members[i+1].start - 1
			}
			members = append(members, Member{Key: out[m.start:m.colon:m.colon], Value: out[m.colon+1 : next : next]})
		}
	}

	c.release()
	return out, n, members, err
}

// compactor is one run of Compact.
type compactor struct {
	src, dst []byte
	// run is where the part of src begins that is to be copied to dst as it is.
	run int
	// depth is how many more objects and lists may be opened.
	depth int
	// members are those of the objects that are open.
	members []member
	// entries is used again for each object that is sorted.
	entries []entry
	// keep says that the members of the outermost object stay when it is closed.
	keep bool
	err  error
}

// member is where a member of an open object stands in dst: its key from start to
// colon, then its value up to the next member.
type member struct{ start, colon int }

// pool keeps the lists of members, and each compactor off the heap's churn.
var pool = sync.Pool{New: func() any { return new(compactor) }}

// maxKept is how many members a compactor in the pool may have room for.
const maxKept = 4096

func (c *compactor) begin(dst, src []byte, maxDepth int) {
	if maxDepth <= 0 {
		maxDepth = DefaultDepth
	}
	*c = compactor{src: src, dst: dst, depth: maxDepth, members: c.members[:0], entries: c.entries[:0]}
}

func (c *compactor) finish(before, end int) ([]byte, int, error) {
	if end < 0 {
		return c.dst[:before], 0, c.err
	}
	c.flush(end)
	return c.dst, end, nil
}

func (c *compactor) release() {
	if max(cap(c.members), cap(c.entries)) > maxKept {
		c.members, c.entries = nil, nil
	}
	*c = compactor{members: c.members[:0], entries: c.entries[:0]}
	pool.Put(c)
}

// at returns where in dst the byte at an index of src goes.
func (c *compactor) at(i int) int { return len(c.dst) + i - c.run }

// flush copies what is to be copied before an index of src.
func (c *compactor) flush(i int) {
	c.dst = append(c.dst, c.src[c.run:i]...)
	c.run = i
}

// blank returns the index of the first byte at or after i that is not blank.
func (c *compactor) blank(i int) int {
	if i < len(c.src) && c.src[i] > ' ' {
		return i
	}
	return c.skipBlank(i)
}

func (c *compactor) skipBlank(i int) int {
	end := blankEnd(c.src, i)
	if end > i {
		c.flush(i)
		c.run = end
	}
	return end
}

// value reads the value at an index and gives the index after it, or -1 with an error.
func (c *compactor) value(i int) int {
	if i >= len(c.src) {
		return c.fail(i, "")
	}

	switch b := c.src[i]; b {
	case '"':
		end, _ := c.str(i + 1)
		return end
	case '{':
		return c.object(i)
	case '[':
		return c.list(i)
	case 't':
		return c.literal(i, "true")
	case 'f':
		return c.literal(i, "false")
	case 'n':
		return c.literal(i, "null")
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return c.number(i)
		}
		return c.fail(i, "looking for beginning of value")
	}
}

// list reads the list that opens at an index.
func (c *compactor) list(i int) int {
	if c.depth--; c.depth < 0 {
		return c.tooDeep(i)
	}

	i = c.blank(i + 1)
	if i < len(c.src) && c.src[i] == ']' {
		c.depth++
		return i + 1
	}

	for {
		if i = c.value(i); i < 0 {
			return i
		}
		if i = c.blank(i); i >= len(c.src) {
			return c.fail(i, "")
		}
		switch c.src[i] {
		case ',':
			i = c.blank(i + 1)
		case ']':
			c.depth++
			return i + 1
		default:
			return c.fail(i, "after array element")
		}
	}
}

// object reads the object that opens at an index.
func (c *compactor) object(i int) int {
	if c.depth--; c.depth < 0 {
		return c.tooDeep(i)
	}

	first, sorted := len(c.members), true
	var last []byte
	i = c.blank(i + 1)
	if i < len(c.src) && c.src[i] == '}' {
		c.depth++
		return i + 1
	}

	for {
		if i >= len(c.src) || c.src[i] != '"' {
			return c.fail(i, "looking for beginning of object key string")
		}

		start, opened := c.at(i), i+1
		var plain bool
		if i, plain = c.str(opened); i < 0 {
			return i
		}

		if sorted {
			key := c.src[opened : i-1]
			sorted = plain && (len(c.members) == first || bytes.Compare(last, key) < 0)
			last = key
		}

		c.members = append(c.members, member{start, c.at(i)})
		if i = c.blank(i); i >= len(c.src) || c.src[i] != ':' {
			return c.fail(i, "after object key")
		}
		if i = c.value(c.blank(i + 1)); i < 0 {
			return i
		}
		if i = c.blank(i); i >= len(c.src) {
			return c.fail(i, "")
		}

		switch c.src[i] {
		case ',':
			i = c.blank(i + 1)
		case '}':
			c.depth++
			c.closeObject(i, first, sorted)
			return i + 1
		default:
			return c.fail(i, "after object key:value pair")
		}
	}
}

// closeObject ends the object whose members are those from first on.
func (c *compactor) closeObject(i, first int, sorted bool) {
	if !sorted {
		c.flush(i)
		c.sort(first)
	}
	if first > 0 || !c.keep {
		c.members = c.members[:first]
	}
}
