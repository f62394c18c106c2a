package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// Index knows where each blob of one or several catalogs stands, and reads it there when
// it is asked for. It takes about a hundred bytes for a blob, whatever its size.
//
// It can be read by many goroutines at once while nothing is added.
type Index struct {
	limits  Limits
	files   []indexedFile
	made    []Meta
	entries []Entry
}

// Entry is a blob of an Index.
type Entry struct {
	Schema, Package, Name string

	// offset and length are where the blob stands in its file; of a blob that was made in
	// memory, offset is its number.
	offset         int64
	length         int32
	line, document int32
	file           int32
}

// inMemory stands for the file of a blob that was made in memory.
const inMemory = -1

// indexedFile is a file as it was when it was read.
type indexedFile struct {
	fsys     fs.FS
	name     string
	size     int64
	modified time.Time
}

// NewIndex makes an index without blobs. The limits are for what is added.
func NewIndex(limits Limits) *Index { return &Index{limits: limits.withDefaults()} }

// Add adds the blobs of a catalog, which has to stay as it is. They follow those that were
// added before. Blobs of the schemas that OLM defines have to fit them. For errors see
// Walk; some blobs may then have been added.
func (ix *Index) Add(fsys fs.FS) error {
	for _, err := range indexed(ix, fsys, func(m Meta) (struct{}, error) { return struct{}{}, fits(m) }) {
		if err != nil {
			return err
		}
	}
	return nil
}

// IndexMap adds the blobs of a catalog to an index, and yields what a function makes of
// each: it does the work of Map and of Add in one go. Whether a blob fits its schema is
// left to the function. When the consumer stops, the blobs up to the one it got last are
// in the index.
func IndexMap[T any](ix *Index, fsys fs.FS, f func(Meta) (T, error)) iter.Seq2[T, error] {
	return indexed(ix, fsys, owned(f))
}

// indexed is an IndexMap whose function may use the blob only during its call.
func indexed[T any](ix *Index, fsys fs.FS, f func(Meta) (T, error)) iter.Seq2[T, error] {
	type pair struct {
		entry Entry
		value T
	}
	return func(yield func(T, error) bool) {
		m := &mapping[pair]{fsys: fsys, limits: ix.limits, size: chunkBytes}
		m.f = func(meta Meta) (pair, error) {
			value, err := f(meta)
			return pair{entryOf(meta), value}, err
		}
		m.opened = func(name string, info fs.FileInfo) {
			ix.files = append(ix.files, indexedFile{fsys: fsys, name: name, size: info.Size(), modified: info.ModTime()})
		}
		m.all(func(p pair, err error) bool {
			if err == nil {
				p.entry.file = clamp(len(ix.files) - 1)
				err = ix.add(p.entry)
			}
			if err != nil {
				p = pair{}
			}
			return yield(p.value, err) && err == nil
		})
	}
}

// add adds an entry.
func (ix *Index) add(e Entry) error {
	if len(ix.entries) == ix.limits.Blobs {
		return &Error{Err: fmt.Errorf("the catalog has more than %d blobs", ix.limits.Blobs)}
	}
	ix.entries = append(ix.entries, e)
	return nil
}

func entryOf(m Meta) Entry {
	return Entry{
		Schema: m.Schema, Package: m.Package, Name: m.Name,
		offset: m.At.Offset, length: clamp(m.At.Length), line: clamp(m.At.Line), document: clamp(m.At.Document),
	}
}

// clamp bounds a number that is far smaller than that in any catalog that keeps the
// default limits.
func clamp(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // It is bounded.

// AddBlob adds a blob that stands in no file. Only its Blob counts, a JSON object in any
// form, and the place, for errors.
func (ix *Index) AddBlob(m Meta) error {
	blob, _, members, err := jsontext.CompactObject(nil, m.Blob, ix.limits.Depth, nil)
	meta := Meta{Blob: blob, At: m.At}
	if err == nil {
		err = new(names).readHead(&meta, members)
	}
	if err != nil {
		return m.At.Wrap(err)
	}
	if err := fits(meta); err != nil {
		return err
	}

	entry := entryOf(meta)
	entry.file, entry.offset = inMemory, int64(len(ix.made))
	ix.made = append(ix.made, meta)

	return ix.add(entry)
}

// fits checks that a blob fits its schema if it is one that OLM defines.
func fits(m Meta) error {
	var err error
	switch m.Schema {
	case SchemaPackage:
		_, err = DecodePackage(m)
	case SchemaChannel:
		_, err = DecodeChannel(m)
	case SchemaBundle:
		_, err = DecodeBundle(m)
	case SchemaDeprecations:
		_, err = DecodeDeprecations(m)
	}

	return err
}

// Entries are the blobs in the order in which they were added, within a catalog in that
// of Walk. They are not to be changed.
func (ix *Index) Entries() []Entry { return ix.entries }

// PackageName is the package that the blob says something of. See Meta.PackageName.
func (e Entry) PackageName() string {
	return Meta{Schema: e.Schema, Package: e.Package, Name: e.Name}.PackageName()
}

// String names the blob.
func (e Entry) String() string {
	return Meta{Schema: e.Schema, Package: e.Package, Name: e.Name}.String()
}

// Blob reads a blob again. An *Error says that its file is not what it was when it was
// added; other errors that it could not be read.
func (ix *Index) Blob(e Entry) (Meta, error) {
	r := ix.reader()
	defer r.close()
	m, err := r.blob(e)
	m.Blob = bytes.Clone(m.Blob)
	return m, err
}

var errChanged = errors.New("the file was changed after it was read first: start again")
