package catalogstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// chunkBytes is how much is read from disk at once where a lot is read.
const chunkBytes = 256 << 10

// Content is the content of a catalog at one time. New content that is stored meanwhile
// does not change it.
type Content struct {
	file  *file
	info  Info
	store *Store
	close sync.Once
}

// Close releases the content. It may be called more than once.
func (c *Content) Close() { c.close.Do(c.file.letGo) }

// Info describes the content.
func (c *Content) Info() Info { return c.info }

// Ref names a blob of a Content: its number in the order of the catalog, from 0. It takes
// four bytes, and means the same in all content of the same Sum.
type Ref uint32

// Entry is what the index knows of a blob, without reading it.
type Entry struct {
	// Schema, Package and Name are those of the blob's fbc.Meta.
	Schema, Package, Name string
	// Bytes is the length of the blob as compact JSON.
	Bytes int
}

// Refs yields the blobs that match a query, in the order of the catalog. Nothing is read
// from disk.
func (c *Content) Refs(q Query) iter.Seq2[Ref, Entry] {
	return func(yield func(Ref, Entry) bool) {
		for i := range c.file.index.find(q) {
			if !yield(Ref(i), c.file.index.entry(i)) { //nolint:gosec // The limit of the index is far below 4 billion blobs.
				return
			}
		}
	}
}

// Blob reads one blob, and checks that it is what was stored. The bytes are the caller's.
//
// An error means that the file was changed or cannot be read; a Ref that is not of this
// content is an error too.
func (c *Content) Blob(ref Ref) (fbc.Meta, error) {
	if int(ref) >= len(c.file.index.records) {
		return fbc.Meta{}, fmt.Errorf("reading stored content: there is no blob %d among %d", ref, len(c.file.index.records))
	}

	line, err := c.file.readLine(int(ref), nil)
	if err != nil {
		return fbc.Meta{}, err
	}

	entry := c.file.index.entry(int(ref))
	return fbc.Meta{Schema: entry.Schema, Package: entry.Package, Name: entry.Name, Blob: line[:entry.Bytes:entry.Bytes]}, nil
}

// Metas yields the blobs that match a query, in the order of the catalog, each read and
// checked as Blob does. The first error ends it.
func (c *Content) Metas(q Query) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for ref := range c.Refs(q) {
			meta, err := c.Blob(ref)
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}

// Scan is Metas for those who look at one blob at a time: the bytes of a blob are not to
// be used once the next one is asked for.
func (c *Content) Scan(q Query) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		var line []byte
		for ref, entry := range c.Refs(q) {
			var err error
			if line, err = c.file.readLine(int(ref), line); err != nil {
				yield(fbc.Meta{}, err)
				return
			}
			if !yield(fbc.Meta{Schema: entry.Schema, Package: entry.Package, Name: entry.Name, Blob: line[:entry.Bytes]}, nil) {
				return
			}
		}
	}
}

func (ix *index) entry(i int) Entry {
	r := &ix.records[i]
	return Entry{
		Schema: ix.strings[r.keys[fieldSchema]], Package: ix.strings[r.keys[fieldPackage]], Name: ix.strings[r.keys[fieldName]],
		Bytes: int(r.length) - 1,
	}
}

// span is a part of the file: length bytes from offset on, which are those of the
// selection from at on.
type span struct{ at, offset, length int64 }

// Selection is the blobs that a query selects, as JSON lines in the order of the
// catalog. It can be read until the Content is closed.
type Selection struct {
	// Bytes is its length.
	Bytes int64
	// Modified is when the catalog's content last changed.
	Modified time.Time
	// Sum names the selected bytes: two selections of equal Sum are equal, also of
	// different content.
	Sum string

	file  *file
	spans []span
}

// All selects every blob.
func (c *Content) All() Selection {
	return Selection{
		Bytes: c.file.index.bytes, Modified: c.info.Modified, Sum: c.info.Sum,
		file: c.file, spans: []span{{length: c.file.index.bytes}},
	}
}

// Select selects the blobs that match a query.
func (c *Content) Select(q Query) Selection {
	if q == (Query{}) {
		return c.All()
	}

	s := Selection{Modified: c.info.Modified, file: c.file}
	sums := sha256.New()
	for i := range c.file.index.find(q) {
		r := &c.file.index.records[i]
		sums.Write(r.sum[:])
		s.add(r.offset, int64(r.length))
	}

	s.Sum = hex.EncodeToString(sums.Sum(nil)[:sumSize])
	return s
}

// add appends a part of the file. Parts that touch become one.
func (s *Selection) add(offset, length int64) {
	if n := len(s.spans); n > 0 && s.spans[n-1].offset+s.spans[n-1].length == offset {
		s.spans[n-1].length += length
	} else {
		s.spans = append(s.spans, span{at: s.Bytes, offset: offset, length: length})
	}
	s.Bytes += length
}

// Reader reads the selection from its start. Content that was not verified as a whole yet
// is checked blob by blob, before it is given away.
func (s Selection) Reader() *Reader {
	return &Reader{selection: s, checked: !s.file.isVerified(), record: -1}
}

// Reader reads a Selection. It is not safe for concurrent use.
type Reader struct {
	selection Selection
	// at is the place in the selection.
	at int64
	// checked says that blobs are checked while they are read. line then is the line of
	// the record that was read last.
	checked bool
	record  int
	line    []byte
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.selection.Bytes
	}

	if offset < 0 {
		return r.at, errors.New("a place before the start")
	}

	r.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.at >= r.selection.Bytes {
		return 0, io.EOF
	}

	spans := r.selection.spans
	i := sort.Search(len(spans), func(i int) bool { return spans[i].at > r.at }) - 1
	read := 0
	for ; read < len(p) && i < len(spans); i++ {
		s := spans[i]
		inside := r.at - s.at
		n, err := r.readAt(p[read:read+int(min(int64(len(p)-read), s.length-inside))], s.offset+inside)
		read += n
		r.at += int64(n)
		if err != nil {
			return read, err
		}
	}

	return read, nil
}

// readAt fills a buffer from a place in the file.
func (r *Reader) readAt(p []byte, offset int64) (int, error) {
	if r.checked {
		return r.readChecked(p, offset)
	}

	n, err := r.selection.file.os.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}

	return n, fmt.Errorf("reading stored content: %w", err)
}

// readChecked is readAt by whole blobs.
func (r *Reader) readChecked(p []byte, offset int64) (int, error) {
	read := 0
	for read < len(p) {
		number := r.selection.file.index.at(offset)
		if number != r.record {
			line, err := r.selection.file.readLine(number, r.line)
			if err != nil {
				r.record = -1
				return read, err
			}
			r.line, r.record = line, number
		}

		n := copy(p[read:], r.line[offset-r.selection.file.index.records[number].offset:])
		read += n
		offset += int64(n)
	}

	return read, nil
}
