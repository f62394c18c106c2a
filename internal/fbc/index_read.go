package fbc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// indexReader reads blobs of an index. It keeps the last file open.
type indexReader struct {
	index *Index
	// file is the open file, and fileNumber its index in Index.files.
	file       fs.File
	fileNumber int32
	// buffer is reused for each blob.
	buffer []byte
	parser parser
}

func (ix *Index) newIndexReader() *indexReader {
	return &indexReader{index: ix, parser: parser{limits: ix.limits}}
}

// closeCurrentFile closes the open file. The reader can still be used.
func (r *indexReader) closeCurrentFile() {
	if r.file != nil {
		_ = r.file.Close() // It was only read.
		r.file = nil
	}
}

// readIndexedBlob returns a blob that is valid until the next call.
func (r *indexReader) readIndexedBlob(e Entry) (Meta, error) {
	if e.file == inMemoryFile {
		return r.index.inMemoryBlobs[e.offset], nil
	}

	file := &r.index.files[e.file]
	switch err := r.readBlobText(e, file); {
	case errors.Is(err, errFileChanged):
		return Meta{}, &Error{File: file.name, Err: errFileChanged}
	case err != nil:
		return Meta{}, fmt.Errorf("reading %s again: %w", file.name, err)
	}

	// The document need not begin at the start of a line.
	start := position{offset: e.offset, lines: int(e.line) - 1, documents: int(e.document) - 1}
	r.parser.startChunk(chunk{file: file.name, start: start, text: r.buffer, final: true})
	m, err := r.parser.parseNextBlob()
	if err != nil || m.Schema != e.Schema || m.Package != e.Package || m.Name != e.Name || m.At.Length != int(e.length) {
		return Meta{}, &Error{File: file.name, Err: errFileChanged}
	}

	return m, nil
}

// readBlobText reads the text of a blob into the buffer.
func (r *indexReader) readBlobText(e Entry, file *indexedFile) error {
	r.buffer = slices.Grow(resetReusedBuffer(r.buffer), int(e.length))[:e.length]
	if r.file == nil || r.fileNumber != e.file {
		if err := r.openIndexedFile(e.file, file); err != nil {
			return err
		}
	}

	if at, ok := r.file.(io.ReaderAt); ok {
		n, err := at.ReadAt(r.buffer, e.offset)
		return checkReadLength(n, len(r.buffer), err)
	}

	// A file without ReadAt has to be read from its start.
	defer r.closeCurrentFile()
	if err := seekFromStart(r.file, e.offset); err != nil {
		return checkReadLength(0, 1, err)
	}

	n, err := io.ReadFull(r.file, r.buffer)
	return checkReadLength(n, len(r.buffer), err)
}

// openIndexedFile opens a file. It returns errFileChanged if its size or modification time differ
// from those in the index.
func (r *indexReader) openIndexedFile(number int32, file *indexedFile) error {
	r.closeCurrentFile()
	opened, info, err := openCatalogFile(file.fsys, file.name)
	if err != nil {
		return err
	}

	r.file, r.fileNumber = opened, number
	if info.Size() != file.size || !info.ModTime().Equal(file.modified) {
		r.closeCurrentFile()
		return errFileChanged
	}

	return nil
}

// checkReadLength returns errFileChanged if a file ended before all bytes were read.
func checkReadLength(n, want int, err error) error {
	switch {
	case n == want:
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errFileChanged
	}
	return err
}
