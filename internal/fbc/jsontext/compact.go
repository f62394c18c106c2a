// Package jsontext works on the text of JSON values. It validates them, converts them to a
// canonical form, indents them, and splits objects and lists into their parts.
//
// It does not decode values. Its results are parts of a text, so that a caller decodes only what
// it needs. Package fbc interprets the values.
package jsontext

import (
	"bytes"
	"sync"
)

// DefaultDepth is the default limit for the nesting of objects and lists. It is that of
// encoding/json.
const DefaultDepth = 10_000

// Compact appends the canonical form of the JSON value at the start of src. It returns the number
// of bytes of src that it read: the value and the blanks before it. It ignores the text after the
// value, except for the byte that ends a number.
//
// The canonical form is the output of encoding/json for the value decoded into an any, without
// HTML escapes. It has no blanks. The keys of each object are sorted by their bytes and unique;
// the last of several equal keys counts. Strings have no more escapes than needed, and U+FFFD
// replaces invalid UTF-8. Unlike in encoding/json, numbers stay unchanged, so that no digits are
// lost.
//
// If objects and lists are nested deeper than maxDepth, the error is ErrTooDeep; 0 means
// DefaultDepth. Every error is a *SyntaxError, and dst is then returned with its original length.
func Compact(dst, src []byte, maxDepth int) (out []byte, n int, err error) {
	c := compactors.Get().(*compactor)
	c.resetForValue(dst, src, maxDepth)
	end := c.readValue(c.nextNonBlank(0))
	out, n, err = c.finishOutput(len(dst), end)
	c.returnToPool()
	return out, n, err
}

// Member is a member of an object. Key is a JSON string with its quotes.
type Member struct{ Key, Value []byte }

// CompactObject is Compact for a value that must be an object. It also appends the members of the
// canonical form to members. They are parts of out.
func CompactObject(dst, src []byte, maxDepth int, members []Member) (out []byte, n int, list []Member, err error) {
	c := compactors.Get().(*compactor)
	c.resetForValue(dst, src, maxDepth)
	start := c.nextNonBlank(0)
	var end int
	if start < len(src) && src[start] == '{' {
		c.keepMembers = true
		end = c.readObject(start)
	} else {
		end = c.failAtIndex(start, "looking for beginning of object")
	}

	out, n, err = c.finishOutput(len(dst), end)
	if err == nil {
		for i, m := range c.members {
			// The value ends before the comma or the brace.
			next := len(out) - 1
			if i+1 < len(c.members) {
				next = c.members[i+1].start - 1
			}
			members = append(members, Member{Key: out[m.start:m.colon:m.colon], Value: out[m.colon+1 : next : next]})
		}
	}

	c.returnToPool()
	return out, n, members, err
}

// compactor is the state of one call of Compact.
type compactor struct {
	src, dst []byte
	// copyFrom is the start of the part of src that is copied to dst unchanged.
	copyFrom int
	// depthLeft is the number of further objects and lists that may be opened.
	depthLeft int
	// members are the members of the open objects.
	members []member
	// entries is reused for each object that is sorted.
	entries []sortEntry
	// keepMembers keeps the members of the outermost object when it is closed.
	keepMembers bool
	err         error
}

// member is the position of a member of an open object in dst. The key is from start to colon,
// and the value reaches to the next member.
type member struct{ start, colon int }

// compactors pools compactors with their lists of members.
var compactors = sync.Pool{New: func() any { return new(compactor) }}

// maxPooledMembers is the maximum capacity of the lists of a pooled compactor.
const maxPooledMembers = 4096

func (c *compactor) resetForValue(dst, src []byte, maxDepth int) {
	if maxDepth <= 0 {
		maxDepth = DefaultDepth
	}
	*c = compactor{src: src, dst: dst, depthLeft: maxDepth, members: c.members[:0], entries: c.entries[:0]}
}

func (c *compactor) finishOutput(before, end int) ([]byte, int, error) {
	if end < 0 {
		return c.dst[:before], 0, c.err
	}
	c.copySourceUntil(end)
	return c.dst, end, nil
}

func (c *compactor) returnToPool() {
	if max(cap(c.members), cap(c.entries)) > maxPooledMembers {
		c.members, c.entries = nil, nil
	}
	*c = compactor{members: c.members[:0], entries: c.entries[:0]}
	compactors.Put(c)
}

// outputIndexOf returns the index in dst for the byte at index i of src.
func (c *compactor) outputIndexOf(i int) int { return len(c.dst) + i - c.copyFrom }

// copySourceUntil copies the pending part of src before index i.
func (c *compactor) copySourceUntil(i int) {
	c.dst = append(c.dst, c.src[c.copyFrom:i]...)
	c.copyFrom = i
}

// nextNonBlank returns the index of the first byte at or after i that is not blank.
func (c *compactor) nextNonBlank(i int) int {
	if i < len(c.src) && c.src[i] > ' ' {
		return i
	}
	return c.skipBlanks(i)
}

func (c *compactor) skipBlanks(i int) int {
	end := findBlankEnd(c.src, i)
	if end > i {
		c.copySourceUntil(i)
		c.copyFrom = end
	}
	return end
}

// readValue reads the value at an index. It returns the index after it, or -1 if it sets an
// error.
func (c *compactor) readValue(i int) int {
	if i >= len(c.src) {
		return c.failAtIndex(i, "")
	}

	switch b := c.src[i]; b {
	case '"':
		end, _ := c.readString(i + 1)
		return end
	case '{':
		return c.readObject(i)
	case '[':
		return c.readList(i)
	case 't':
		return c.readLiteral(i, "true")
	case 'f':
		return c.readLiteral(i, "false")
	case 'n':
		return c.readLiteral(i, "null")
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return c.readNumber(i)
		}
		return c.failAtIndex(i, "looking for beginning of value")
	}
}

func (c *compactor) readList(i int) int {
	if c.depthLeft--; c.depthLeft < 0 {
		return c.failTooDeep(i)
	}

	i = c.nextNonBlank(i + 1)
	if i < len(c.src) && c.src[i] == ']' {
		c.depthLeft++
		return i + 1
	}

	for {
		if i = c.readValue(i); i < 0 {
			return i
		}
		if i = c.nextNonBlank(i); i >= len(c.src) {
			return c.failAtIndex(i, "")
		}
		switch c.src[i] {
		case ',':
			i = c.nextNonBlank(i + 1)
		case ']':
			c.depthLeft++
			return i + 1
		default:
			return c.failAtIndex(i, "after array element")
		}
	}
}

func (c *compactor) readObject(i int) int {
	if c.depthLeft--; c.depthLeft < 0 {
		return c.failTooDeep(i)
	}

	first, sorted := len(c.members), true
	var last []byte
	i = c.nextNonBlank(i + 1)
	if i < len(c.src) && c.src[i] == '}' {
		c.depthLeft++
		return i + 1
	}

	for {
		var key []byte
		var plain bool
		if i, key, plain = c.readKey(i); i < 0 {
			return i
		}

		if sorted {
			sorted = plain && (last == nil || bytes.Compare(last, key) < 0)
			last = key
		}

		if i = c.readValue(i); i < 0 {
			return i
		}
		if i = c.nextNonBlank(i); i >= len(c.src) {
			return c.failAtIndex(i, "")
		}

		switch c.src[i] {
		case ',':
			i = c.nextNonBlank(i + 1)
		case '}':
			c.depthLeft++
			c.closeObject(i, first, sorted)
			return i + 1
		default:
			return c.failAtIndex(i, "after object key:value pair")
		}
	}
}

// readKey reads the key of a member with its colon. It returns the index of the value, the key, and
// whether the key is plain as readString defines it.
func (c *compactor) readKey(i int) (value int, key []byte, plain bool) {
	if i >= len(c.src) || c.src[i] != '"' {
		return c.failAtIndex(i, "looking for beginning of object key string"), nil, false
	}

	start, opened := c.outputIndexOf(i), i+1
	if i, plain = c.readString(opened); i < 0 {
		return i, nil, false
	}

	key = c.src[opened : i-1]
	c.members = append(c.members, member{start, c.outputIndexOf(i)})
	if i = c.nextNonBlank(i); i >= len(c.src) || c.src[i] != ':' {
		return c.failAtIndex(i, "after object key"), nil, false
	}

	return c.nextNonBlank(i + 1), key, plain
}

// closeObject ends the object with the members from index first.
func (c *compactor) closeObject(i, first int, sorted bool) {
	if !sorted {
		c.copySourceUntil(i)
		c.sortMembersByKey(first)
	}
	if first > 0 || !c.keepMembers {
		c.members = c.members[:first]
	}
}
