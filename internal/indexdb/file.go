package indexdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// sqliteMagic is the header of every SQLite database.
	sqliteMagic = "SQLite format 3\x00"

	// defaultMaxBytes bounds a database. The largest public index had about 400 MB.
	defaultMaxBytes = 4 << 30

	// maxValueBytes bounds one value and one row of a database. It is the limit of a whole
	// bundle, and the largest value has all manifests of a bundle.
	maxValueBytes = 64 << 20
)

// IsDatabase reports whether a file begins with the header of a SQLite database.
func IsDatabase(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return hasDatabaseHeader(file)
}

func hasDatabaseHeader(r io.Reader) (bool, error) {
	head := make([]byte, len(sqliteMagic))
	_, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return bytes.Equal(head, []byte(sqliteMagic)), err
}

// inspectDatabaseFile checks a database file without SQLite: it has the header of a
// database and is not too large. It returns an error if another program left an unfinished
// transaction next to it, whose content would be missing.
func inspectDatabaseFile(path string, maxBytes int64) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is not a regular file", ErrNotDatabase)
	}
	if limit := maxDatabaseSize(maxBytes); info.Size() > limit {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, info.Size(), limit)
	}

	for _, suffix := range []string{"-journal", "-wal"} {
		if left, err := os.Stat(path + suffix); err == nil && left.Size() > 0 {
			return nil, fmt.Errorf("another program is writing it, or was stopped while it did: %s holds a part of the content; open the database once with the program that wrote it", path+suffix)
		}
	}

	if info.Size() == 0 {
		return info, nil
	}

	ok, err := IsDatabase(path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrNotDatabase
	}

	return info, nil
}

// maxDatabaseSize returns the limit of a database, or the default if maxBytes is not
// positive.
func maxDatabaseSize(maxBytes int64) int64 {
	if maxBytes <= 0 {
		return defaultMaxBytes
	}
	return maxBytes
}

// copyLimited copies a file of at most limit bytes into an open, empty one.
func copyLimited(ctx context.Context, to *os.File, from string, limit int64) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()

	n, err := io.Copy(to, &contextReader{ctx, io.LimitReader(source, limit+1)})
	if err != nil {
		return err
	}
	if n > limit {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, limit)
	}

	return nil
}

// contextReader stops reading when the context is done.
type contextReader struct {
	ctx context.Context //nolint:containedctx // It lives as long as one call of copyFile.
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// replaceFileAtomically renames a finished file to target. After a crash, the target is
// either the old or the new file.
func replaceFileAtomically(finished, target string, mode fs.FileMode) error {
	file, err := os.OpenFile(finished, os.O_RDWR, 0)
	if err != nil {
		return err
	}

	err = errors.Join(file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(finished, target); err != nil {
		return err
	}

	dir, err := os.Open(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer dir.Close()

	// Some file systems cannot sync a directory. The file itself is safe nevertheless.
	_ = dir.Sync()
	return nil
}
