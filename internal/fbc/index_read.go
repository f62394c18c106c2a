package fbc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// indexReader reads the blobs of an index, and keeps the file open that it read last.
type indexReader struct {
	index *Index
	// file is the open one, and number which it is.
	file   fs.File
	number int32
	// text is used again for each blob.
	text   []byte
	parser parser
}

func (ix *Index) reader() *indexReader {
	return &indexReader{index: ix, parser: parser{limits: ix.limits}}
}

// close closes the open file. The reader can be used again.
func (r *indexReader) close() {
	if r.file != nil {
		_ = r.file.Close() // It was only read.
		r.file = nil
	}
}

// blob reads a blob, which is valid up to the next call.
func (r *indexReader) blob(e Entry) (Meta, error) {
	if e.file == inMemory {
		return r.index.made[e.offset], nil
	}

	file := &r.index.files[e.file]
	switch err := r.read(e, file); {
	case errors.Is(err, errChanged):
		return Meta{}, &Error{File: file.name, Err: errChanged}
	case err != nil:
		return Meta{}, fmt.Errorf("reading %s again: %w", file.name, err)
	}

	// Where a document begins, no line has to begin.
	start := position{offset: e.offset, lines: int(e.line) - 1, documents: int(e.document) - 1}
	r.parser.reset(chunk{file: file.name, start: start, text: r.text, final: true})
	m, err := r.parser.next()
	if err != nil || m.Schema != e.Schema || m.Package != e.Package || m.Name != e.Name || m.At.Length != int(e.length) {
		return Meta{}, &Error{File: file.name, Err: errChanged}
	}

	return m, nil
}

// read reads the text of a blob.
func (r *indexReader) read(e Entry, file *indexedFile) error {
	r.text = slices.Grow(kept(r.text), int(e.length))[:e.length]
	if r.file == nil || r.number != e.file {
		if err := r.open(e.file, file); err != nil {
			return err
		}
	}

	if at, ok := r.file.(io.ReaderAt); ok {
		n, err := at.ReadAt(r.text, e.offset)
		return whole(n, len(r.text), err)
	}

	// Such a file may only be read from its start.
	defer r.close()
	if err := seek(r.file, e.offset); err != nil {
		return whole(0, 1, err)
	}

	n, err := io.ReadFull(r.file, r.text)
	return whole(n, len(r.text), err)
}

// open opens a file that has to be as it was.
func (r *indexReader) open(number int32, file *indexedFile) error {
	r.close()
	opened, info, err := openFile(file.fsys, file.name)
	if err != nil {
		return err
	}

	r.file, r.number = opened, number
	if info.Size() != file.size || !info.ModTime().Equal(file.modified) {
		r.close()
		return errChanged
	}

	return nil
}

// whole takes the end of a file before all was read for a change of the file.
func whole(n, want int, err error) error {
	switch {
	case n == want:
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errChanged
	}
	return err
}
