package fbc

import (
	"errors"
	"fmt"
	"strings"
)

// Place is the position of a blob in its catalog.
type Place struct {
	// File is the path within the catalog, or the name given to Read.
	File string
	// Document is the number of the blob within its file, counted from 1. It is 0 for a blob that
	// was not read from a file.
	Document int
	// Line is the line on which the blob begins, counted from 1.
	Line int
	// Offset is the position of the blob in its file, in bytes. Length is its size there, in
	// bytes.
	Offset int64
	Length int
}

// Error is a fault in the content of a catalog, with its position. Reading the catalog again
// returns the same error. Other errors of this package come from the file system or the reader
// and may be temporary.
type Error struct {
	// File is the path within the catalog, or the name given to Read.
	File string
	// Document is the number of the blob within its file, counted from 1. It is 0 when the error
	// is about the whole file.
	Document int
	// Line is the line of the fault, counted from 1. It is 0 when Document is 0.
	Line int
	// Offset is the position of the fault in its file, in bytes.
	Offset int64
	// Err is the fault.
	Err error
}

// Error returns the file, the document, the position and the fault.
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

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns an error about the blob at this position.
func (p Place) Wrap(err error) *Error {
	return &Error{File: p.File, Document: p.Document, Line: p.Line, Offset: p.Offset, Err: err}
}

// wrapWithPosition returns an error about the blob. If err wraps a positionError, the result has
// the exact position within the blob.
func (p Place) wrapWithPosition(err error) error {
	e := p.Wrap(err)
	var inside *positionError
	if errors.As(err, &inside) {
		e.Line += inside.lines
		e.Offset += inside.offset
		e.Err = inside.err
	}
	return e
}

// positionError is an error at a position within a document.
type positionError struct {
	lines  int
	offset int64
	err    error
}

func (e *positionError) Error() string { return e.err.Error() }
