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

// checksumSize is the number of bytes of a SHA-256 that are kept. Finding another text with the same 16
// bytes takes 2^128 attempts.
const checksumSize = 16

// checksum is the first bytes of a SHA-256.
type checksum [checksumSize]byte

func computeChecksum(text []byte) checksum {
	whole := sha256.Sum256(text)
	return checksum(whole[:checksumSize])
}

// record is the index entry of a blob.
type record struct {
	// offset is the position of its line in the file.
	offset int64
	// length is the length of the line including the line break.
	length uint32
	// keys are the positions of its schema, package and name in the strings of the index.
	keys [fieldCount]uint32
	// sum is the checksum of the blob without the line break.
	sum checksum
}

// Fields of a query.
const (
	fieldSchema = iota
	fieldPackage
	fieldName
	fieldCount
)

// index finds blobs in a content file.
type index struct {
	// strings are the distinct values of all fields, sorted.
	strings []string
	records []record
	// lists contains, for each field, the records of each string.
	lists [fieldCount]recordLists
	// bytes is the length of all lines.
	bytes int64
}

// recordLists are lists of records, one for each string, in the order of the catalog.
type recordLists struct {
	// starts contains the start of the list of each string in numbers, and the end of the last list.
	starts  []uint32
	numbers []uint32
}

func (l recordLists) recordsOfString(id uint32) []uint32 {
	return l.numbers[l.starts[id]:l.starts[id+1]]
}

// deriveOffsetsAndLists computes the offsets of the records, the total size and the lists.
func (ix *index) deriveOffsetsAndLists() {
	for i := range ix.records {
		ix.records[i].offset = ix.bytes
		ix.bytes += int64(ix.records[i].length)
	}
	for field := range ix.lists {
		ix.lists[field] = ix.groupRecordsByField(field)
	}
}

// groupRecordsByField groups the records by the strings of a field, with a counting sort.
func (ix *index) groupRecordsByField(field int) recordLists {
	l := recordLists{starts: make([]uint32, len(ix.strings)+1), numbers: make([]uint32, len(ix.records))}
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

// contentSum returns the checksum of all blobs, in hexadecimal.
func (ix *index) contentSum() string {
	sums := sha256.New()
	for i := range ix.records {
		sums.Write(ix.records[i].sum[:])
	}
	return hex.EncodeToString(sums.Sum(nil)[:checksumSize])
}

// recordAtOffset returns the number of the record whose line contains an offset.
func (ix *index) recordAtOffset(offset int64) int {
	return sort.Search(len(ix.records), func(i int) bool { return ix.records[i].offset > offset }) - 1
}

// Query selects the blobs that match every non-empty field.
type Query struct {
	Schema, Package, Name string
}

// findRecords yields the numbers of the records that a query selects, in the order of the catalog. It
// visits only the records of the string of the query that occurs least often.
func (ix *index) findRecords(q Query) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		wanted := [fieldCount]string{q.Schema, q.Package, q.Name}
		ids, found := ix.findStrings(wanted)
		if !found {
			return
		}

		if q == (Query{}) {
			for i := range ix.records {
				if !yield(i) {
					return
				}
			}
			return
		}

		for _, i := range ix.shortestList(wanted, ids) {
			if ix.records[i].matchesQuery(wanted, ids) && !yield(int(i)) {
				return
			}
		}
	}
}

// findStrings returns the numbers of the non-empty strings of a query, and whether all of them occur.
func (ix *index) findStrings(wanted [fieldCount]string) ([fieldCount]uint32, bool) {
	var ids [fieldCount]uint32
	for field, text := range wanted {
		if text == "" {
			continue
		}

		id, found := slices.BinarySearch(ix.strings, text)
		if !found {
			return ids, false
		}
		ids[field] = uint32(id) //nolint:gosec // The limit of the index is far below 4 billion strings.
	}

	return ids, true
}

// shortestList returns the records of the non-empty string of a query that occurs least often.
func (ix *index) shortestList(wanted [fieldCount]string, ids [fieldCount]uint32) []uint32 {
	var shortest []uint32
	for field, text := range wanted {
		if text == "" {
			continue
		}
		if list := ix.lists[field].recordsOfString(ids[field]); shortest == nil || len(list) < len(shortest) {
			shortest = list
		}
	}

	return shortest
}

func (r *record) matchesQuery(wanted [fieldCount]string, ids [fieldCount]uint32) bool {
	for field := range wanted {
		if wanted[field] != "" && r.keys[field] != ids[field] {
			return false
		}
	}
	return true
}

// indexBuilder builds an index while blobs are written.
type indexBuilder struct {
	ids     map[string]uint32
	strings []string
	records []record
	bytes   int64
	// stringBytes is the total length of the strings.
	stringBytes int
	limits      Limits
}

func newIndexBuilder(limits Limits) *indexBuilder {
	return &indexBuilder{ids: map[string]uint32{}, limits: limits}
}

// addBlob adds the next blob of the file. It returns an *fbc.Error if the content exceeds a limit.
func (b *indexBuilder) addBlob(meta fbc.Meta) error {
	length := len(meta.Blob) + 1
	b.records = append(b.records, record{
		length: uint32(length), //nolint:gosec // A length that overflows is rejected below.
		keys:   [fieldCount]uint32{b.internString(meta.Schema), b.internString(meta.Package), b.internString(meta.Name)},
		sum:    computeChecksum(meta.Blob),
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
	case b.estimateMemory() > b.limits.IndexMemory:
		return &fbc.Error{Err: fmt.Errorf("the index of the catalog requires more than %d bytes of memory after %d blobs", b.limits.IndexMemory, len(b.records))}
	}

	return nil
}

// Memory that building an index requires until it is written, in bytes.
const (
	// A record of 40 bytes, with the spare capacity of a growing slice (1.25) and its copy during
	// growth (1); its positions in three lists (3 * 4); and its encoded form (32).
	memoryOfRecord = 40*9/4 + 3*4 + recordSize
	// A string header of 16 bytes, in a growing slice (9/4) and in the sorted slice (1); the map entry
	// (24), in a map that doubles (3); its positions (2 * 4); and the starts of three lists, one of
	// which is copied (4 * 4).
	memoryOfString = 16*13/4 + 24*3 + 2*4 + 4*4
	// The bytes of a string, and their encoded form in a growing buffer (9/4).
	memoryOfStringByte = 3
)

// estimateMemory returns an upper bound of the memory for building the index, in bytes.
func (b *indexBuilder) estimateMemory() int {
	return len(b.records)*memoryOfRecord + len(b.strings)*memoryOfString + b.stringBytes*memoryOfStringByte
}

func (b *indexBuilder) internString(s string) uint32 {
	if id, ok := b.ids[s]; ok {
		return id
	}

	id := uint32(len(b.strings)) //nolint:gosec // The limit of the index's size is far below.
	b.ids[s] = id
	b.strings = append(b.strings, s)
	b.stringBytes += len(s)

	return id
}

// buildIndex returns the index of the added blobs. The builder must not be used after that.
func (b *indexBuilder) buildIndex() *index {
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

	ix.deriveOffsetsAndLists()
	return ix
}
