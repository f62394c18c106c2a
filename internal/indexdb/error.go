package indexdb

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotDatabase is returned for a file that is not a SQLite database.
	ErrNotDatabase = errors.New("the file is not a SQLite database")
	// ErrNotIndex is returned for a SQLite database that is not an operator index.
	ErrNotIndex = errors.New("the database is not an operator index")
	// ErrDamaged is returned for a database that cannot be read completely. The user needs
	// another copy.
	ErrDamaged = errors.New("the database is damaged")
	// ErrTooLarge is returned when a database, or one of its values, exceeds a limit.
	ErrTooLarge = errors.New("the database is too large")
	// ErrUnsupportedLevel is returned for a database of an unknown schema level.
	ErrUnsupportedLevel = errors.New("the schema level is not supported")
	// ErrChanged is returned when another program changed the database during an edit. The
	// edit is discarded.
	ErrChanged = errors.New("the database was changed by another program meanwhile; run the command again")
)

// ImageAddedError is returned when the image of an added bundle is already in the index.
// Commands then end with exit code 2.
type ImageAddedError struct {
	// Image is the bundle's image.
	Image string
}

// Error implements error.
func (e *ImageAddedError) Error() string { return fmt.Sprintf("Bundle %s already exists", e.Image) }

// VersionAddedError is returned when the package of an added bundle already has a bundle of
// the same name. Commands then end with exit code 3.
type VersionAddedError struct {
	// Package and Bundle are the names.
	Package, Bundle string
}

// Error implements error.
func (e *VersionAddedError) Error() string {
	return fmt.Sprintf("Bundle already added that provides package and csv: package %q, csv %q", e.Package, e.Bundle)
}

// ExitCode returns the exit code of a command after an error of Add: 2 for an
// [ImageAddedError], 3 for a [VersionAddedError] and 1 for other errors.
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

// DeprecationNotice is printed by commands before they use a SQLite catalog.
const DeprecationNotice = "DEPRECATION NOTICE: catalogs in the SQLite format, and the commands that make them, are deprecated " +
	"and will be removed. Move to file-based catalogs: `opm migrate` makes one of an index."

// opmError is an error with a text of the original opm, which people and scripts know and
// which does not follow the conventions of Go.
type opmError struct {
	text string
	err  error
}

// opmErrorf returns a formatted opmError. It supports %w.
func opmErrorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &opmError{text: err.Error(), err: errors.Unwrap(err)}
}

func (e *opmError) Error() string { return e.text }

func (e *opmError) Unwrap() error { return e.err }

// explainSQLiteError wraps errors of SQLite with an error of this package.
func explainSQLiteError(err error) error {
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
