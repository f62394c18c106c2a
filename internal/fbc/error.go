package fbc

import (
	"errors"
	"fmt"
	"strings"
)

// Place is where a blob stands in its catalog.
type Place struct {
	// File is the path within the catalog, or the name given to Read.
	File string
	// Document counts the file's blobs from 1. It is 0 for a blob that was not read from
	// a file.
	Document int
	// Line is where the blob begins, counted from 1.
	Line int
	// Offset is where the blob begins, in bytes from the start of the file, and Length
	// how many bytes it has there.
	Offset int64
	Length int
}

// Error says that a catalog's content is wrong and where: reading it again gives the
// same error. Other errors of this package come from the file system or the reader,
// and may go away by themselves.
type Error struct {
	// File is the path within the catalog, or the name given to Read.
	File string
	// Document counts the file's blobs from 1. It is 0 when the error is about the
	// whole file.
	Document int
	// Line is where, in the file, counted from 1. It is 0 with Document.
	Line int
	// Offset is where, in bytes from the start of the file.
	Offset int64
	// Err is what is wrong.
	Err error
}

// Error names the file, the document, the place and what is wrong.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	if e.Document > 0 {
		fmt.Fprintf(&b, "document %d (line %d, byte %d): ", e.Document, e.Line, e.Offset)
	}

	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Wrap makes an error about the blob that stands there.
func (p Place) Wrap(err error) *Error {
	return &Error{File: p.File, Document: p.Document, Line: p.Line, Offset: p.Offset, Err: err}
}

// inside makes an error about the blob, or a place within it when that is known.
func (p Place) inside(err error) error {
	e := p.Wrap(err)
	var inside *insideError
	if errors.As(err, &inside) {
		e.Line += inside.lines
		e.Offset += inside.offset
		e.Err = inside.err
	}
	return e
}

// insideError is an error at a place within a document.
type insideError struct {
	lines  int
	offset int64
	err    error
}

func (e *insideError) Error() string { return e.err.Error() }
