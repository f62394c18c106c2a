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

// Index records the position of each blob of one or several catalogs and reads blobs on demand.
// It needs about a hundred bytes for a blob, regardless of its size.
//
// An Index is safe for concurrent reads while nothing is added.
type Index struct {
	limits        Limits
	files         []indexedFile
	inMemoryBlobs []Meta
	entries       []Entry
}

// Entry describes a blob of an Index.
type Entry struct {
	Schema, Package, Name string

	// offset and length locate the blob in its file, in bytes. For an in-memory blob, offset
	// is its index in inMemoryBlobs.
	offset         int64
	length         int32
	line, document int32
	file           int32
}

// inMemoryFile is the file number of blobs that were added by AddBlob.
const inMemoryFile = -1

// indexedFile is the state of a file when it was read.
type indexedFile struct {
	fsys     fs.FS
	name     string
	size     int64
	modified time.Time
}

// NewIndex returns an empty index. The limits apply to the catalogs and blobs that are added.
func NewIndex(limits Limits) *Index { return &Index{limits: limits.withDefaults()} }

// Add appends the blobs of a catalog, whose files must not change afterwards. Blobs of the
// schemas that OLM defines must fit their schema. Add returns the errors of Walk; some blobs may
// then have been added.
func (ix *Index) Add(fsys fs.FS) error {
	for _, err := range indexAndMapBlobs(ix, fsys, func(m Meta) (struct{}, error) { return struct{}{}, checkDefinedSchema(m) }) {
		if err != nil {
			return err
		}
	}
	return nil
}

// IndexMap combines Map and Index.Add: it adds the blobs of a catalog to an index and yields the
// result of f for each blob. It does not check blobs against their schema; f may do that. If the
// consumer stops early, the index contains the blobs up to the last yielded one.
func IndexMap[T any](ix *Index, fsys fs.FS, f func(Meta) (T, error)) iter.Seq2[T, error] {
	return indexAndMapBlobs(ix, fsys, cloneBlobFor(f))
}

// indexAndMapBlobs implements IndexMap for an f that uses the blob only during the call.
func indexAndMapBlobs[T any](ix *Index, fsys fs.FS, f func(Meta) (T, error)) iter.Seq2[T, error] {
	type pair struct {
		entry Entry
		value T
	}
	return func(yield func(T, error) bool) {
		m := &blobMapper[pair]{fsys: fsys, limits: ix.limits, readSize: chunkBytes}
		m.mapBlob = func(meta Meta) (pair, error) {
			value, err := f(meta)
			return pair{newEntryForBlob(meta), value}, err
		}
		m.onFileOpened = func(name string, info fs.FileInfo) {
			ix.files = append(ix.files, indexedFile{fsys: fsys, name: name, size: info.Size(), modified: info.ModTime()})
		}
		m.yieldAllResults(func(p pair, err error) bool {
			if err == nil {
				p.entry.file = clampToInt32(len(ix.files) - 1)
				err = ix.addEntry(p.entry)
			}
			if err != nil {
				p = pair{}
			}
			return yield(p.value, err) && err == nil
		})
	}
}

// addEntry appends an entry. It returns an *Error if the index is full.
func (ix *Index) addEntry(e Entry) error {
	if len(ix.entries) == ix.limits.Blobs {
		return &Error{Err: fmt.Errorf("the catalog has more than %d blobs", ix.limits.Blobs)}
	}
	ix.entries = append(ix.entries, e)
	return nil
}

func newEntryForBlob(m Meta) Entry {
	return Entry{
		Schema: m.Schema, Package: m.Package, Name: m.Name,
		offset: m.At.Offset, length: clampToInt32(m.At.Length), line: clampToInt32(m.At.Line), document: clampToInt32(m.At.Document),
	}
}

// clampToInt32 bounds a number to the range of int32. Catalogs within the default limits are far
// below it.
func clampToInt32(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // It is bounded.

// AddBlob adds a blob that is not in a file. Only m.Blob, a JSON object in any format, and m.At,
// the position for errors, are used.
func (ix *Index) AddBlob(m Meta) error {
	blob, _, members, err := jsontext.CompactObject(nil, m.Blob, ix.limits.Depth, nil)
	meta := Meta{Blob: blob, At: m.At}
	if err == nil {
		err = new(stringInterner).readCommonFields(&meta, members)
	}
	if err != nil {
		return m.At.Wrap(err)
	}
	if err := checkDefinedSchema(meta); err != nil {
		return err
	}

	entry := newEntryForBlob(meta)
	entry.file, entry.offset = inMemoryFile, int64(len(ix.inMemoryBlobs))
	ix.inMemoryBlobs = append(ix.inMemoryBlobs, meta)

	return ix.addEntry(entry)
}

// checkDefinedSchema returns an error if the blob is of a schema that OLM defines and does not
// fit it.
func checkDefinedSchema(m Meta) error {
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

// Entries returns the blobs in the order in which they were added; within a catalog this is the
// order of Walk. The caller must not modify the result.
func (ix *Index) Entries() []Entry { return ix.entries }

// PackageName returns the package that the blob describes. See Meta.PackageName.
func (e Entry) PackageName() string {
	return Meta{Schema: e.Schema, Package: e.Package, Name: e.Name}.PackageName()
}

// String describes the blob by its schema, package and name.
func (e Entry) String() string {
	return Meta{Schema: e.Schema, Package: e.Package, Name: e.Name}.String()
}

// ReadBlob reads a blob from its file. It returns an *Error if the file has changed since it was
// added, and other errors if the file cannot be read.
func (ix *Index) ReadBlob(e Entry) (Meta, error) {
	r := ix.newIndexReader()
	defer r.closeCurrentFile()
	m, err := r.readIndexedBlob(e)
	m.Blob = bytes.Clone(m.Blob)
	return m, err
}

var errFileChanged = errors.New("the file has changed since it was first read: start again")
