package jsontext

import (
	"bytes"
	"slices"
)

// sortEntry is a member to be sorted: its start and end in dst, the length of its quoted key, and
// its key without quotes and escapes.
type sortEntry struct {
	start, end, colon int
	key               []byte
}

// sortMembersByKey sorts the members from index first by their keys. The last of them ends at the
// end of dst. Of members with the same key it keeps the last.
func (c *compactor) sortMembersByKey(first int) {
	members := c.members[first:]
	begin, end := members[0].start, len(c.dst)
	entries := c.entries[:0]
	for i, m := range members {
		next := end
		if i+1 < len(members) {
			next = members[i+1].start - 1
		}
		entries = append(entries, sortEntry{start: m.start, end: next, colon: m.colon - m.start, key: c.unescapedKey(m)})
	}

	slices.SortStableFunc(entries, func(a, b sortEntry) int { return bytes.Compare(a.key, b.key) })

	// The sorted members are appended to dst and then moved over the unsorted ones.
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

// unescapedKey returns the key of a member without quotes and escapes.
func (c *compactor) unescapedKey(m member) []byte {
	quoted := c.dst[m.start:m.colon]
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return appendUnquoted(nil, inner)
}
