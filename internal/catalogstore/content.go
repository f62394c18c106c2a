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

// readBufferSize is the size of buffers for sequential reads of content, in bytes.
const readBufferSize = 256 << 10

// Content is a snapshot of the content of a catalog. It does not change if new content is stored.
type Content struct {
	file       *contentFile
	info       Info
	compressor *compressor
	closeOnce  sync.Once
}

// Close releases the content. It may be called more than once.
func (c *Content) Close() { c.closeOnce.Do(c.file.releaseReference) }

// Info describes the content.
func (c *Content) Info() Info { return c.info }

// Ref identifies a blob of a Content by its position in the catalog, starting with 0. A Ref is valid for
// all content with the same Sum.
type Ref uint32

// Entry describes a blob by its metadata in the index.
type Entry struct {
	// Schema, Package and Name are the fields of the same names in fbc.Meta.
	Schema, Package, Name string
	// Bytes is the length of the blob as compact JSON.
	Bytes int
}

// Refs yields the blobs that match a query, in the order of the catalog. It does not read from disk.
func (c *Content) Refs(q Query) iter.Seq2[Ref, Entry] {
	return func(yield func(Ref, Entry) bool) {
		for i := range c.file.index.findRecords(q) {
			if !yield(Ref(i), c.file.index.entryAt(i)) { //nolint:gosec // The limit of the index is far below 4 billion blobs.
				return
			}
		}
	}
}

// Blob reads one blob and verifies its checksum. The caller owns the returned bytes.
//
// An error means that the file was changed, that it cannot be read, or that the Ref does not belong to
// this content.
func (c *Content) Blob(ref Ref) (fbc.Meta, error) {
	if int(ref) >= len(c.file.index.records) {
		return fbc.Meta{}, fmt.Errorf("reading stored content: there is no blob %d among %d", ref, len(c.file.index.records))
	}

	line, err := c.file.readLine(int(ref), nil)
	if err != nil {
		return fbc.Meta{}, err
	}

	entry := c.file.index.entryAt(int(ref))
	return fbc.Meta{Schema: entry.Schema, Package: entry.Package, Name: entry.Name, Blob: line[:entry.Bytes:entry.Bytes]}, nil
}

// Metas yields the blobs that match a query, in the order of the catalog. Each blob is verified as by
// Blob. The iteration ends at the first error.
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

// Scan is like Metas, but reuses the buffer: the bytes of a blob are valid until the next blob is
// requested.
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

func (ix *index) entryAt(i int) Entry {
	r := &ix.records[i]
	return Entry{
		Schema: ix.strings[r.keys[fieldSchema]], Package: ix.strings[r.keys[fieldPackage]], Name: ix.strings[r.keys[fieldName]],
		Bytes: int(r.length) - 1,
	}
}

// span is a range of length bytes at offset in the file. It starts at position in the selection.
type span struct{ position, offset, length int64 }

// Selection is the blobs that a query selects, as JSON lines in the order of the catalog. It can be read
// until the Content is closed.
type Selection struct {
	// Bytes is the length of the selection.
	Bytes int64
	// Modified is the time at which the content of the catalog last changed.
	Modified time.Time
	// Sum identifies the selected bytes. Selections with the same Sum are equal, also across different
	// content.
	Sum string

	file  *contentFile
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
	for i := range c.file.index.findRecords(q) {
		r := &c.file.index.records[i]
		sums.Write(r.sum[:])
		s.addSpan(r.offset, int64(r.length))
	}

	s.Sum = hex.EncodeToString(sums.Sum(nil)[:checksumSize])
	return s
}

// addSpan appends a range of the file. Adjacent ranges are merged.
func (s *Selection) addSpan(offset, length int64) {
	if n := len(s.spans); n > 0 && s.spans[n-1].offset+s.spans[n-1].length == offset {
		s.spans[n-1].length += length
	} else {
		s.spans = append(s.spans, span{position: s.Bytes, offset: offset, length: length})
	}
	s.Bytes += length
}

// Reader returns a reader that starts at the beginning of the selection. If the file is not completely
// verified yet, the reader verifies each blob before it returns its bytes.
func (s Selection) Reader() *Reader {
	return &Reader{selection: s, verifyBlobs: !s.file.isVerified(), record: -1}
}

// Reader reads a Selection. It is not safe for concurrent use.
type Reader struct {
	selection Selection
	// position is the offset in the selection.
	position int64
	// verifyBlobs is set if blobs are verified while they are read. line is then the line of the
	// record that was read last.
	verifyBlobs bool
	record      int
	line        []byte
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.position
	case io.SeekEnd:
		offset += r.selection.Bytes
	}

	if offset < 0 {
		return r.position, errors.New("seek before the start of the selection")
	}

	r.position = offset
	return offset, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.position >= r.selection.Bytes {
		return 0, io.EOF
	}

	spans := r.selection.spans
	i := sort.Search(len(spans), func(i int) bool { return spans[i].position > r.position }) - 1
	read := 0
	for ; read < len(p) && i < len(spans); i++ {
		s := spans[i]
		inside := r.position - s.position
		n, err := r.readAt(p[read:read+int(min(int64(len(p)-read), s.length-inside))], s.offset+inside)
		read += n
		r.position += int64(n)
		if err != nil {
			return read, err
		}
	}

	return read, nil
}

// readAt fills a buffer from an offset in the file.
func (r *Reader) readAt(p []byte, offset int64) (int, error) {
	if r.verifyBlobs {
		return r.readChecked(p, offset)
	}

	n, err := r.selection.file.handle.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}

	return n, fmt.Errorf("reading stored content: %w", err)
}

// readChecked is like readAt, but reads and verifies whole blobs.
func (r *Reader) readChecked(p []byte, offset int64) (int, error) {
	read := 0
	for read < len(p) {
		number := r.selection.file.index.recordAtOffset(offset)
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
