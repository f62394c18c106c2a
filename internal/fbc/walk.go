package fbc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
)

// ignoreFile names the files that say which others are not part of the catalog. They
// are never read as blobs.
const ignoreFile = ".indexignore"

// Walk yields the blobs of a catalog: those of every file in the file system, in
// the order of folders and names, whatever the name, but for the files that
// .indexignore files leave out. Files may mix JSON and YAML.
//
// The first error ends the walk, with a zero Meta. An *Error says that the content
// is wrong; any other that it could not be read. Memory grows with the largest blob
// and the names in the largest folder, not with the catalog.
//
// Symbolic links to files are read, so that a file system that must not be left has
// to refuse links that leave it, as os.Root does. Links to folders are refused.
func Walk(fsys fs.FS, limits Limits) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		w := &walker{fsys: fsys, limits: limits.withDefaults(), yield: yield}
		if err := w.folder(".", 0, nil); err != nil && !errors.Is(err, errStopped) {
			yield(Meta{}, err)
		}
	}
}

// Read yields the blobs of one file: concatenated JSON objects, JSON lines, YAML
// documents, or a mix. The name stands in errors. See Walk for errors and memory.
func Read(r io.Reader, name string, limits Limits) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		s := newStream(r, name, limits.withDefaults())
		for {
			meta, err := s.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}

// errStopped ends a walk whose consumer wants no more.
var errStopped = errors.New("stopped")

// walker is one walk.
type walker struct {
	fsys   fs.FS
	limits Limits
	yield  func(Meta, error) bool
	files  int
}

// folder walks one folder. The ignores are those of the folders above it.
func (w *walker) folder(dir string, depth int, above []ignores) error {
	if depth > w.limits.Folders {
		return &Error{File: dir, Err: fmt.Errorf("folders are nested more than %d deep", w.limits.Folders)}
	}
	entries, err := fs.ReadDir(w.fsys, dir)
	if err != nil {
		return fmt.Errorf("reading the catalog's folder %s: %w", dir, err)
	}
	own, err := w.readIgnores(dir, entries)
	if err != nil {
		return err
	}
	if own != nil {
		// The full slice expression keeps sibling folders from sharing the tail.
		above = append(above[:len(above):len(above)], *own)
	}
	for _, entry := range entries {
		if err := w.entry(path.Join(dir, entry.Name()), entry, depth, above); err != nil {
			return err
		}
	}
	return nil
}

// entry walks one entry of a folder.
func (w *walker) entry(name string, entry fs.DirEntry, depth int, above []ignores) error {
	if entry.IsDir() {
		return w.folder(name, depth+1, above)
	}
	if w.files++; w.files > w.limits.Files {
		return &Error{File: name, Err: fmt.Errorf("the catalog has more than %d files", w.limits.Files)}
	}
	if path.Base(name) == ignoreFile || ignored(above, name) {
		return nil
	}
	return w.file(name, entry)
}

// file yields the blobs of one file.
func (w *walker) file(name string, entry fs.DirEntry) error {
	if err := w.checkRegular(name, entry); err != nil {
		return err
	}
	f, err := w.fsys.Open(name)
	if err != nil {
		return fmt.Errorf("opening %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // It was only read.
	for meta, err := range Read(f, name, w.limits) {
		if err != nil {
			return err
		}
		if !w.yield(meta, nil) {
			return errStopped
		}
	}
	return nil
}

// checkRegular refuses what cannot be read as a file. Opening it could block for
// ever, as with a named pipe.
func (w *walker) checkRegular(name string, entry fs.DirEntry) error {
	mode := entry.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := fs.Stat(w.fsys, name)
		if err != nil {
			return &Error{File: name, Err: fmt.Errorf("the symbolic link cannot be followed: %w", err)}
		}
		mode = info.Mode().Type()
		if mode.IsDir() {
			return &Error{File: name, Err: errors.New("is a symbolic link to a folder, which is not followed: put the folder there")}
		}
	}
	if !mode.IsRegular() {
		return &Error{File: name, Err: fmt.Errorf("is not a regular file (%s)", mode)}
	}
	return nil
}

// readIgnores reads the ignore file of a folder, nil when it has none.
func (w *walker) readIgnores(dir string, entries []fs.DirEntry) (*ignores, error) {
	for _, entry := range entries {
		if entry.Name() != ignoreFile || entry.IsDir() {
			continue
		}
		name := path.Join(dir, ignoreFile)
		if err := w.checkRegular(name, entry); err != nil {
			return nil, err
		}
		f, err := w.fsys.Open(name)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", name, err)
		}
		defer func() { _ = f.Close() }() // It was only read.
		text, err := io.ReadAll(io.LimitReader(f, ignoreBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		parsed, err := parseIgnores(dir, text)
		if err != nil {
			return nil, &Error{File: name, Err: err}
		}
		return parsed, nil
	}
	return nil, nil
}
