package content

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"syscall"

	"github.com/cespare/xxhash/v2"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Source is the source of a catalog's blobs: a Folder, a Stream or a Stored.
type Source interface {
	// String returns the name of the source for logs.
	String() string

	// computeChecksum returns a number that changes when the content of the source changes.
	computeChecksum(ctx context.Context) (uint64, error)
	// digestBlobs calls digest for each blob and yields the results, always in the same order.
	// An error ends the iteration.
	digestBlobs(digest func(fbc.Meta) (digestedBlob, error)) iter.Seq2[digestedBlob, error]
	// skipsValidation reports whether the catalog may break the rules of file-based catalogs.
	skipsValidation() bool
}

// defaultMaxFiles is how many files a folder may have: the default of fbc.Limits.
const defaultMaxFiles = 200_000

// Folder is a Source: the file-based catalog in a folder.
//
// Its checksum covers the path and the bytes of every file, including files that .indexignore
// excludes from the catalog.
type Folder struct {
	// Dir is the path of the folder.
	Dir string
	// Limits limit what is read.
	Limits fbc.Limits
}

// String returns the path of the folder.
func (f Folder) String() string { return f.Dir }

// openRoot opens the folder. Links that leave it are not followed.
func (f Folder) openRoot() (*os.Root, error) {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "stat", Path: f.Dir, Err: syscall.ENOTDIR}
	}
	return os.OpenRoot(f.Dir)
}

// digestBlobs digests the blobs of the catalog on all processors.
func (f Folder) digestBlobs(digest func(fbc.Meta) (digestedBlob, error)) iter.Seq2[digestedBlob, error] {
	return func(yield func(digestedBlob, error) bool) {
		root, err := f.openRoot()
		if err != nil {
			yield(digestedBlob{}, err)
			return
		}
		defer func() { _ = root.Close() }() // It was only read.
		fbc.Map(root.FS(), f.Limits, digest)(yield)
	}
}

// skipsValidation implements Source.
func (Folder) skipsValidation() bool { return false }

// computeChecksum returns the checksum of all files below the folder.
func (f Folder) computeChecksum(ctx context.Context) (uint64, error) {
	root, err := f.openRoot()
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // It was only read.
	type file struct {
		name string
		size int64
		sums []uint64
	}
	var files []file
	limit := cmp.Or(f.Limits.Files, defaultMaxFiles)
	hasher := newParallelHasher(ctx)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if len(files) >= limit {
			return &fbc.Error{File: name, Err: fmt.Errorf("the catalog has more than %d files", limit)}
		}

		info, err := entry.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = root.Stat(name)
		}
		if err != nil {
			return err
		}

		if !info.Mode().IsRegular() {
			// Building the index reports it.
			files = append(files, file{name: name, size: -1})
			return nil
		}

		files = append(files, file{name, info.Size(), hasher.hashFileInPieces(info.Size(), func() (io.ReaderAt, func() error, error) {
			f, err := root.Open(name)
			if err != nil {
				return nil, nil, err
			}
			return f, f.Close, nil
		})})

		return nil
	})
	if waitErr := hasher.waitForPieces(); err == nil {
		err = waitErr
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", f.Dir, err)
	}

	sum := xxhash.New()
	for _, file := range files {
		// A name cannot contain the byte 0, so no two lists are encoded alike.
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00%016x\n", file.name, file.size, combineChecksums(file.sums))
	}

	return sum.Sum64(), nil
}

// Stream is a Source whose blobs are not in files, such as the blobs of a database.
type Stream struct {
	// Name is the name of the source for logs.
	Name string
	// All yields the blobs, always in the same order.
	All iter.Seq2[fbc.Meta, error]
	// Checksum returns a number that changes when the blobs change, such as FileSum of a database
	// file.
	Checksum func(ctx context.Context) (uint64, error)
	// Database is set for the blobs of a SQLite catalog, as indexdb.Index.MetasWithRecords yields
	// them. They are served with the contents of their records, and may break the rules of
	// file-based catalogs, which databases did not have to follow. Entries without a bundle are
	// left out, and so are the heads of channels that do not have exactly one.
	Database bool
}

// String returns the name of the stream.
func (s Stream) String() string { return s.Name }

// computeChecksum implements Source.
func (s Stream) computeChecksum(ctx context.Context) (uint64, error) { return s.Checksum(ctx) }

// skipsValidation implements Source.
func (s Stream) skipsValidation() bool { return s.Database }

// digestBlobs digests the blobs one by one and applies the records of a database.
func (s Stream) digestBlobs(digest func(fbc.Meta) (digestedBlob, error)) iter.Seq2[digestedBlob, error] {
	return func(yield func(digestedBlob, error) bool) {
		for meta, err := range s.All {
			var d digestedBlob
			if err == nil {
				d, err = digest(meta)
			}
			if err == nil && s.Database {
				err = applyDatabaseRecord(&d)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Stored is a Source whose blobs are kept elsewhere. The content file has only what is derived from
// them. The blobs must be readable as long as the content is open.
type Stored struct {
	// Name is the name of the source for logs.
	Name string
	// Sum is the checksum of all blobs, in any form.
	Sum string
	// All yields the blobs, always in the same order. A blob is valid until the next one is requested.
	All iter.Seq2[fbc.Meta, error]
	// Read reads a blob by its position in All, starting with 0. The caller owns the result.
	Read func(number uint32) ([]byte, error)
	// Close is called when the content is closed. It may be nil.
	Close func()
}

// String returns the name of the source.
func (s Stored) String() string { return s.Name }

// computeChecksum returns a checksum of the checksum, which differs from that of a source whose blobs are
// in the content file.
func (s Stored) computeChecksum(context.Context) (uint64, error) {
	return xxhash.Sum64String("stored:" + s.Sum), nil
}

// skipsValidation implements Source.
func (Stored) skipsValidation() bool { return false }

// digestBlobs digests the blobs one by one.
func (s Stored) digestBlobs(digest func(fbc.Meta) (digestedBlob, error)) iter.Seq2[digestedBlob, error] {
	return func(yield func(digestedBlob, error) bool) {
		number := uint32(0)
		for meta, err := range s.All {
			var d digestedBlob
			if err == nil {
				d, err = digest(meta)
				d.number = number
			}
			if !yield(d, err) || err != nil {
				return
			}
			number++
		}
	}
}

// FileSum returns the checksum of a file.
func FileSum(ctx context.Context, path string) (uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}

	return checksumFile(ctx, file, info.Size())
}
