package jsontext

import (
	"bytes"
	"slices"
)

// entry is a member that is to be sorted: where it begins and ends in dst, how long its
// key is as it stands there, and its key without quotes and escapes.
type entry struct {
	start, end, colon int
	key               []byte
}

// sort brings the members from first on, which end where dst does, into the order of
// their keys, and keeps one of those with the same key: the last.
func (c *compactor) sort(first int) {
	members := c.members[first:]
	begin, end := members[0].start, len(c.dst)
	entries := c.entries[:0]
	for i, m := range members {
		next := end
		if i+1 < len(members) {
			next = members[i+1].start - 1
		}
		entries = append(entries, entry{start: m.start, end: next, colon: m.colon - m.start, key: c.key(m)})
	}

	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })

	// The new order is written behind the old one and then moved over it.
	kept := members[:0]
	for i, e := range entries {
		if i+1 < len(entries) && bytes.Equal(entries[i+1].key, e.key) {
			continue
		}
		if len(kept) > 0 {
			c.dst = append(c.dst, ',')
		}

		start := begin + len(c.dst) - end
		kept = append(kept, member{start: start, colon: start + e.colon})
		c.dst = append(c.dst, c.dst[e.start:e.end]...)
	}

	size := copy(c.dst[begin:], c.dst[end:])
	c.dst = c.dst[:begin+size]
	c.members = c.members[:first+len(kept)]
	clear(entries)
	c.entries = entries
}

// key returns the key of a member as it is to be compared.
func (c *compactor) key(m member) []byte {
	quoted := c.dst[m.start:m.colon]
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return appendUnquoted(nil, inner)
}
