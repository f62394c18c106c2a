package indexdb

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotDatabase says that a file is no SQLite database, whatever its name.
	ErrNotDatabase = errors.New("the file is not a SQLite database")
	// ErrNotIndex says that a file is a SQLite database of something else.
	ErrNotIndex = errors.New("the database is not an operator index")
	// ErrDamaged says that a database cannot be read, or not in whole: get a fresh copy.
	ErrDamaged = errors.New("the database is damaged")
	// ErrTooLarge says that a database, or one value of it, is above a limit.
	ErrTooLarge = errors.New("the database is too large")
	// ErrLevel says that a database has a schema level that this program does not know.
	ErrLevel = errors.New("the schema level is not supported")
	// ErrChanged says that a database was changed by somebody else during an edit, whose
	// own changes were therefore dropped.
	ErrChanged = errors.New("the database was changed by another program meanwhile; run the command again")
)

// ImageAddedError says that a bundle was to be added whose image is in the index already.
// Commands end with exit code 2.
type ImageAddedError struct {
	// Image is the bundle's image.
	Image string
}

// Error implements error.
func (e *ImageAddedError) Error() string { return fmt.Sprintf("Bundle %s already exists", e.Image) }

// VersionAddedError says that a bundle was to be added whose package has a bundle of the
// same name already. Commands end with exit code 3.
type VersionAddedError struct {
	// Package and Bundle are the names.
	Package, Bundle string
}

// Error implements error.
func (e *VersionAddedError) Error() string {
	return fmt.Sprintf("Bundle already added that provides package and csv: package %q, csv %q", e.Package, e.Bundle)
}

// ExitCode is the code with which a command ends after an error of Add: 2 and 3 say that
// a bundle is there already, by its image or by its name. Of other errors it is 1.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*ImageAddedError)):
		return 2
	case errors.As(err, new(*VersionAddedError)):
		return 3
	default:
		return 1
	}
}

// DeprecationNotice is what commands say before they touch a SQLite catalog.
const DeprecationNotice = "DEPRECATION NOTICE: catalogs in the SQLite format, and the commands that make them, are deprecated " +
	"and will be removed. Move to file-based catalogs: `opm migrate` makes one of an index."

// said is an error whose text is one that people and scripts know from opm, which does not
// follow the habits of Go.
type said struct {
	text string
	err  error
}

// say makes such an error. A verb %w is allowed.
func say(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &said{text: err.Error(), err: errors.Unwrap(err)}
}

func (e *said) Error() string { return e.text }

func (e *said) Unwrap() error { return e.err }

// explain adds to an error of SQLite what it means for the one who reads it.
func explain(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}

	switch failure.Code() & 0xff { // the rest is detail
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrNotDatabase, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: a value is above the limit of %d bytes: %w", ErrTooLarge, maxValueBytes, err)
	default:
		return err
	}
}
