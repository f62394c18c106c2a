package fbc

import (
	"fmt"
	"strings"
)

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

// Unwrap gives what is wrong.
func (e *Error) Unwrap() error { return e.Err }
