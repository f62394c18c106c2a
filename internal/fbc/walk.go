package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
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
//
// Files are read ahead, on all processors; see Map.
func Walk(fsys fs.FS, limits Limits) iter.Seq2[Meta, error] {
	return Map(fsys, limits, func(m Meta) (Meta, error) { return m, nil })
}

// Read yields the blobs of one file: concatenated JSON objects, JSON lines, YAML
// documents, or a mix. The name stands in errors. See Walk for errors and memory.
func Read(r io.Reader, name string, limits Limits) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		s := newSplitter(r, name, limits.withDefaults(), nil, begin())
		err := readBlobs(s, func(m Meta) error {
			m.Blob = bytes.Clone(m.Blob)
			if !yield(m, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(Meta{}, err)
		}
	}
}

// readBlobs calls a function for each blob of a file. The blob is valid during the call.
func readBlobs(s *splitter, visit func(Meta) error) error {
	p := &parser{limits: s.limits}
	for {
		c, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := readChunk(s, c, p, visit); err != nil {
			return err
		}
	}
}

// readChunk calls a function for each blob of a chunk.
func readChunk(s *splitter, c chunk, p *parser, visit func(Meta) error) error {
	p.reset(c)
	for {
		meta, err := p.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errUnsure):
			return readLonger(s, p, visit)
		case err != nil:
			return err
		}
		if err := visit(meta); err != nil {
			return err
		}
	}
}

// readLonger reads the document that the parser is at, which may be YAML that goes on
// after its chunk.
func readLonger(s *splitter, p *parser, visit func(Meta) error) error {
	// With the bytes after it, so that its end can be seen.
	p.reset(s.ahead(p.here, lenientBytes+4))
	meta, err := p.next()
	if err != nil {
		return err
	}

	s.skip(p.here)
	return visit(meta)
}

// walker lists the files of a catalog.
type walker struct {
	fsys   fs.FS
	limits Limits
	// visit is called for each file that is part of the catalog.
	visit func(name string) error
	// files are those that were seen, and folders.
	files int
}

// folder walks one folder. The ignores are those of the folders above it.
func (w *walker) folder(dir string, depth int, above []ignores) error {
	if depth > w.limits.Folders {
		return &Error{File: dir, Err: fmt.Errorf("folders are nested more than %d deep", w.limits.Folders)}
	}

	entries, err := w.readDir(dir)
	if err != nil {
		return err
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

// readDir returns the entries of a folder in the order of their names. It reads no more of
// them than are allowed.
func (w *walker) readDir(dir string) ([]fs.DirEntry, error) {
	file, err := w.fsys.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the catalog's folder %s: %w", dir, err)
	}

	defer func() { _ = file.Close() }() // It was only read.
	folder, ok := file.(fs.ReadDirFile)
	if !ok {
		return nil, fmt.Errorf("reading the catalog's folder %s: %w", dir, errors.ErrUnsupported)
	}

	var entries []fs.DirEntry
	for err == nil {
		var more []fs.DirEntry
		more, err = folder.ReadDir(entriesAtOnce)
		entries = append(entries, more...)
		if w.files += len(more); w.files > w.limits.Files {
			return nil, &Error{File: dir, Err: fmt.Errorf("the catalog has more than %d files", w.limits.Files)}
		}
	}

	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the catalog's folder %s: %w", dir, err)
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// entriesAtOnce is how many entries of a folder are read at a time.
const entriesAtOnce = 1000

// entry walks one entry of a folder.
func (w *walker) entry(name string, entry fs.DirEntry, depth int, above []ignores) error {
	if entry.IsDir() {
		return w.folder(name, depth+1, above)
	}
	if path.Base(name) == ignoreFile || ignored(above, name) {
		return nil
	}
	if err := w.checkRegular(name, entry); err != nil {
		return err
	}
	return w.visit(name)
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
