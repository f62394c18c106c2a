package catalogstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// sumSize is how much of a SHA-256 is kept: finding another text with the same 16 bytes
// takes 2^128 attempts.
const sumSize = 16

// sum is the start of a SHA-256.
type sum [sumSize]byte

func sumOf(text []byte) sum {
	whole := sha256.Sum256(text)
	return sum(whole[:sumSize])
}

// record is one blob in the index.
type record struct {
	// offset is where its line begins.
	offset int64
	// length is that of the line, with its line break.
	length uint32
	// keys are the indexes, among the strings, of its schema, package and name.
	keys [fields]uint32
	// sum is that of the blob, without the line break.
	sum sum
}

// The fields that blobs are found by.
const (
	fieldSchema = iota
	fieldPackage
	fieldName
	fields
)

// index finds blobs in a content file.
type index struct {
	// strings are sorted.
	strings []string
	records []record
	// lists has, for each field, the records of each string.
	lists [fields]lists
	// bytes is the length of all lines.
	bytes int64
}

// lists are lists of records, one for each string, in the order of the catalog.
type lists struct {
	// starts has where in numbers the list of a string begins, and at its end where the
	// last one ends.
	starts  []uint32
	numbers []uint32
}

func (l lists) of(id uint32) []uint32 { return l.numbers[l.starts[id]:l.starts[id+1]] }

// complete makes what is derived from the strings and records.
func (ix *index) complete() {
	for i := range ix.records {
		ix.records[i].offset = ix.bytes
		ix.bytes += int64(ix.records[i].length)
	}
	for field := range ix.lists {
		ix.lists[field] = ix.listsOf(field)
	}
}

// listsOf sorts the records by the strings of a field, by counting.
func (ix *index) listsOf(field int) lists {
	l := lists{starts: make([]uint32, len(ix.strings)+1), numbers: make([]uint32, len(ix.records))}
	for i := range ix.records {
		l.starts[ix.records[i].keys[field]+1]++
	}

	for i := 1; i < len(l.starts); i++ {
		l.starts[i] += l.starts[i-1]
	}

	next := slices.Clone(l.starts)
	for i := range ix.records {
		at := &next[ix.records[i].keys[field]]
		l.numbers[*at] = uint32(i)
		*at++
	}

	return l
}

// sum names the bytes of all blobs, in hexadecimal.
func (ix *index) sum() string {
	sums := sha256.New()
	for i := range ix.records {
		sums.Write(ix.records[i].sum[:])
	}
	return hex.EncodeToString(sums.Sum(nil)[:sumSize])
}

// at returns the number of the record whose line holds an offset.
func (ix *index) at(offset int64) int {
	return sort.Search(len(ix.records), func(i int) bool { return ix.records[i].offset > offset }) - 1
}

// Query selects blobs: those that match each field that is not empty.
type Query struct {
	Schema, Package, Name string
}

// find yields the numbers of the records that a query selects, in the order of the
// catalog. It looks at no more records than those of the rarest of the query's strings.
func (ix *index) find(q Query) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		wanted := [fields]string{q.Schema, q.Package, q.Name}
		var ids [fields]uint32
		var shortest []uint32
		some := false
		for field, text := range wanted {
			if text == "" {
				continue
			}

			id, found := slices.BinarySearch(ix.strings, text)
			if !found {
				return
			}

			ids[field] = uint32(id) //nolint:gosec // The limit of the index is far below 4 billion strings.
			if list := ix.lists[field].of(ids[field]); !some || len(list) < len(shortest) {
				some, shortest = true, list
			}
		}

		if !some {
			for i := range ix.records {
				if !yield(i) {
					return
				}
			}
			return
		}

		for _, i := range shortest {
			if ix.records[i].matches(wanted, ids) && !yield(int(i)) {
				return
			}
		}
	}
}

func (r *record) matches(wanted [fields]string, ids [fields]uint32) bool {
	for field := range wanted {
		if wanted[field] != "" && r.keys[field] != ids[field] {
			return false
		}
	}
	return true
}

// builder collects an index while blobs are written.
type builder struct {
	ids     map[string]uint32
	strings []string
	records []record
	bytes   int64
	// stringBytes is the length of all strings.
	stringBytes int
	limits      Limits
}

func newBuilder(limits Limits) *builder {
	return &builder{ids: map[string]uint32{}, limits: limits}
}

// add takes in the next blob of the file. Its errors are about the content.
func (b *builder) add(meta fbc.Meta) error {
	length := len(meta.Blob) + 1
	b.records = append(b.records, record{
		length: uint32(length), //nolint:gosec // A length that does not fit is refused below.
		keys:   [fields]uint32{b.id(meta.Schema), b.id(meta.Package), b.id(meta.Name)},
		sum:    sumOf(meta.Blob),
	})
	b.bytes += int64(length)
	switch {
	case int64(length) > math.MaxUint32:
		return &fbc.Error{Err: fmt.Errorf("%s is larger than 4 GiB", meta)}
	case b.bytes > b.limits.Bytes:
		return &fbc.Error{Err: fmt.Errorf("the catalog is larger than %d bytes", b.limits.Bytes)}
	case len(b.records) > b.limits.Blobs:
		return &fbc.Error{Err: fmt.Errorf("the catalog has more than %d blobs", b.limits.Blobs)}
	case len(b.strings) > b.limits.Names:
		return &fbc.Error{Err: fmt.Errorf("the catalog has more than %d different schemas, packages and names after %d blobs", b.limits.Names, len(b.records))}
	case b.memory() > b.limits.IndexMemory:
		return &fbc.Error{Err: fmt.Errorf("the index of the catalog takes more than %d bytes of memory after %d blobs", b.limits.IndexMemory, len(b.records))}
	}

	return nil
}

// What building an index takes in memory, in bytes, until it is written.
const (
	// A record of 40, with the room that a growing list leaves (1.25) and the copy of it
	// that is made when it grows (1); its place in three lists (3 * 4); and its form on
	// disk (32).
	memoryOfRecord = 40*9/4 + 3*4 + recordSize
	// A string header of 16, in a growing list (9/4) and in the sorted one; the entry of
	// the map (24), which doubles (3); its places (2 * 4) and the starts of three lists,
	// of which one is copied (4 * 4).
	memoryOfString = 16*13/4 + 24*3 + 2*4 + 4*4
	// The bytes of a string, and their form on disk in a growing buffer (9/4).
	memoryOfStringByte = 3
)

// memory returns what the index takes at most while it is built, in bytes.
func (b *builder) memory() int {
	return len(b.records)*memoryOfRecord + len(b.strings)*memoryOfString + b.stringBytes*memoryOfStringByte
}

func (b *builder) id(s string) uint32 {
	if id, ok := b.ids[s]; ok {
		return id
	}

	id := uint32(len(b.strings)) //nolint:gosec // The limit of the index's size is far below.
	b.ids[s] = id
	b.strings = append(b.strings, s)
	b.stringBytes += len(s)

	return id
}

// index returns the index of what was added. The builder is of no use after that.
func (b *builder) index() *index {
	order := make([]uint32, len(b.strings))
	for i := range order {
		order[i] = uint32(i)
	}

	slices.SortFunc(order, func(x, y uint32) int { return cmp.Compare(b.strings[x], b.strings[y]) })
	ix := &index{strings: make([]string, len(order)), records: slices.Clip(b.records)}
	place := make([]uint32, len(order))
	for to, from := range order {
		ix.strings[to] = b.strings[from]
		place[from] = uint32(to)
	}

	for i := range ix.records {
		for field, id := range ix.records[i].keys {
			ix.records[i].keys[field] = place[id]
		}
	}

	ix.complete()
	return ix
}
