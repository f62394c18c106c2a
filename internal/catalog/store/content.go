package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// handle is an open content file.
type handle struct {
	file *os.File
	// stat is how the file was when it was checked.
	stat  os.FileInfo
	info  Info
	index index
	sum   [sha256.Size]byte

	// readers counts the Contents; retired says that there will be no new ones. Both
	// are guarded by the slot's mu.
	readers int
	retired bool
}

// openHandle opens a content file and checks all of it.
func openHandle(path string) (*handle, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := &handle{file: file}
	if err := h.load(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return h, nil
}

func (h *handle) load() error {
	stat, err := h.file.Stat()
	if err != nil {
		return err
	}
	if stat.Size() < int64(trailerSize) || !stat.Mode().IsRegular() {
		return errFormat
	}
	buffer := make([]byte, trailerSize)
	if _, err := h.file.ReadAt(buffer, stat.Size()-int64(trailerSize)); err != nil {
		return err
	}
	t, err := decodeTrailer(buffer, stat.Size())
	if err != nil {
		return err
	}
	blobs := sha256.New()
	if _, err := io.Copy(blobs, io.NewSectionReader(h.file, 0, t.blobs)); err != nil {
		return err
	}
	text := make([]byte, t.index)
	if _, err := h.file.ReadAt(text, t.blobs); err != nil {
		return err
	}
	if [sha256.Size]byte(blobs.Sum(nil)) != t.blobsSum || sha256.Sum256(text) != t.indexSum {
		return errors.New("its checksum does not match")
	}
	head, ix, err := readIndex(text, t.blobs)
	if err != nil {
		return err
	}
	h.stat, h.index, h.sum = stat, ix, t.blobsSum
	h.info = Info{
		Source: head.Source, Unpacked: head.Unpacked, Modified: head.Modified,
		Confirmed: stat.ModTime(), Bytes: t.blobs, Blobs: len(ix.records),
	}
	return nil
}

// isOf tells whether the handle is of a file as it is now.
func (h *handle) isOf(info os.FileInfo) bool { return same(info, h.stat) }

// same tells whether two looks at a file saw the same content, as far as can be seen
// without reading it.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// look takes over the time of the file, which the store has set.
func (h *handle) look(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	h.stat = info
	h.info.Confirmed = info.ModTime()
	return nil
}

// replace makes a handle the current one; mu is held.
func (s *slot) replace(h *handle) {
	if old := s.current; old != nil {
		old.retired = true
		old.closeUnused()
	}
	s.current = h
}

func (h *handle) closeUnused() {
	if h.retired && h.readers == 0 {
		_ = h.file.Close() // It was only read.
	}
}

// Content is the content of a catalog at one time. New content that is stored meanwhile
// does not change it.
type Content struct {
	handle *handle
	slot   *slot
	closed bool
}

// Close releases the content. It may be called more than once.
func (c *Content) Close() {
	c.slot.mu.Lock()
	defer c.slot.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.handle.readers--
	c.handle.closeUnused()
}

// Query selects blobs: those that match each field that is not empty.
type Query struct {
	Schema, Package, Name string
}

// span is a part of the file.
type span struct{ offset, length int64 }

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

	file  io.ReaderAt
	spans []span
}

// All selects every blob.
func (c *Content) All() Selection {
	return Selection{
		Bytes: c.handle.info.Bytes, Modified: c.handle.info.Modified, Sum: hex.EncodeToString(c.handle.sum[:sumSize]),
		file: c.handle.file, spans: []span{{0, c.handle.info.Bytes}},
	}
}

// Select selects the blobs that match a query.
func (c *Content) Select(q Query) Selection {
	s := Selection{Modified: c.handle.info.Modified, file: c.handle.file}
	sums := sha256.New()
	ix := &c.handle.index
	match := ix.matcher(q)
	for i := range ix.records {
		r := &ix.records[i]
		if !match(r) {
			continue
		}
		sums.Write(r.sum[:])
		s.Bytes += int64(r.length)
		if n := len(s.spans); n > 0 && s.spans[n-1].offset+s.spans[n-1].length == r.offset {
			s.spans[n-1].length += int64(r.length)
		} else {
			s.spans = append(s.spans, span{r.offset, int64(r.length)})
		}
	}
	s.Sum = hex.EncodeToString(sums.Sum(nil)[:sumSize])
	return s
}

// matcher makes the test of a query.
func (ix *index) matcher(q Query) func(*record) bool {
	schema, pkg, name := ix.find(q.Schema), ix.find(q.Package), ix.find(q.Name)
	return func(r *record) bool {
		return schema.matches(r.schema) && pkg.matches(r.pkg) && name.matches(r.name)
	}
}

// wanted is what a query asks of one field: anything, or the string of a number, or a
// string that no blob has.
type wanted struct {
	anything, none bool
	id             uint32
}

func (w wanted) matches(id uint32) bool { return w.anything || (!w.none && w.id == id) }

func (ix *index) find(text string) wanted {
	if text == "" {
		return wanted{anything: true}
	}
	for i, s := range ix.strings {
		if s == text {
			return wanted{id: uint32(i)}
		}
	}
	return wanted{none: true}
}

// Reader reads the selection from its start.
func (s Selection) Reader() io.Reader { return &spanReader{file: s.file, spans: s.spans} }

// spanReader reads parts of a file, one after the other.
type spanReader struct {
	file  io.ReaderAt
	spans []span
	// done is how much of the first span was read.
	done int64
}

func (r *spanReader) Read(p []byte) (int, error) {
	read := 0
	for read < len(p) && len(r.spans) > 0 {
		current := r.spans[0]
		want := min(int64(len(p)-read), current.length-r.done)
		n, err := r.file.ReadAt(p[read:read+int(want)], current.offset+r.done)
		read += n
		r.done += int64(n)
		if int64(n) < want {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return read, fmt.Errorf("reading stored content: %w", err)
		}
		if r.done == current.length {
			r.spans, r.done = r.spans[1:], 0
		}
	}
	if read == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return read, nil
}
