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

// Source returns the blobs of a catalog: it is a Folder or a Stream.
type Source interface {
	// String names the source for people.
	String() string

	// sum tells one content of the source from another: as long as the content stays as
	// it is, so does the sum.
	sum(ctx context.Context) (uint64, error)
	// digest yields what is digested of each blob, always in the same order. An error ends
	// it.
	digest(digest func(fbc.Meta) (digested, error)) iter.Seq2[digested, error]
	// unchecked says that the catalog may break the rules of file-based catalogs.
	unchecked() bool
}

// defaultFiles is how many files a folder may have: the default of fbc.Limits.
const defaultFiles = 200_000

// Folder is a Source: the file-based catalog in a folder.
//
// Its sum takes in the path and the bytes of every file, also of those that .indexignore
// files leave out of the catalog.
type Folder struct {
	// Dir is the folder.
	Dir string
	// Limits bound what is read.
	Limits fbc.Limits
}

// String is the folder's path.
func (f Folder) String() string { return f.Dir }

// root opens the folder. Links that leave it are not followed.
func (f Folder) root() (*os.Root, error) {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "stat", Path: f.Dir, Err: syscall.ENOTDIR}
	}
	return os.OpenRoot(f.Dir)
}

// digest yields what is digested of the blobs of the catalog, on all processors.
func (f Folder) digest(digest func(fbc.Meta) (digested, error)) iter.Seq2[digested, error] {
	return func(yield func(digested, error) bool) {
		root, err := f.root()
		if err != nil {
			yield(digested{}, err)
			return
		}
		defer func() { _ = root.Close() }() // It was only read.
		fbc.Map(root.FS(), f.Limits, digest)(yield)
	}
}

func (Folder) unchecked() bool { return false }

// sum sums all files below the folder.
func (f Folder) sum(ctx context.Context) (uint64, error) {
	root, err := f.root()
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
	limit := cmp.Or(f.Limits.Files, defaultFiles)
	pieces := newSummer(ctx)
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
			// Building the index refuses it.
			files = append(files, file{name: name, size: -1})
			return nil
		}

		files = append(files, file{name, info.Size(), pieces.file(info.Size(), func() (io.ReaderAt, func() error, error) {
			f, err := root.Open(name)
			if err != nil {
				return nil, nil, err
			}
			return f, f.Close, nil
		})})

		return nil
	})
	if waitErr := pieces.wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", f.Dir, err)
	}

	sum := xxhash.New()
	for _, file := range files {
		// A name cannot hold the byte 0, so that no two lists are written alike.
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00%016x\n", file.name, file.size, sumOf(file.sums))
	}

	return sum.Sum64(), nil
}

// Stream is a Source of blobs that do not stand in files, as those of a database.
type Stream struct {
	// Name names the source for people.
	Name string
	// All yields the blobs, always in the same order.
	All iter.Seq2[fbc.Meta, error]
	// Change returns a number that changes with the blobs, as FileSum does for a database
	// that is a file.
	Change func(ctx context.Context) (uint64, error)
	// Database is set for the blobs of a SQLite catalog, as indexdb.Index.ServedMetas yields
	// them. They are served with what their records state, and may break the rules of
	// file-based catalogs, to which databases were not held. What of them cannot be served
	// is left out: entries without a bundle, and the heads of channels that have not exactly
	// one.
	Database bool
}

// String is the stream's name.
func (s Stream) String() string { return s.Name }

// sum is the number that changes with the blobs.
func (s Stream) sum(ctx context.Context) (uint64, error) { return s.Change(ctx) }

func (s Stream) unchecked() bool { return s.Database }

// digest yields what is digested of the blobs.
func (s Stream) digest(digest func(fbc.Meta) (digested, error)) iter.Seq2[digested, error] {
	return func(yield func(digested, error) bool) {
		for meta, err := range s.All {
			var d digested
			if err == nil {
				d, err = digest(meta)
			}
			if err == nil && s.Database {
				err = applyRecord(&d)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// FileSum tells one content of a file from another.
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

	return sumFile(ctx, file, info.Size())
}
