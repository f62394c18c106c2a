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

// ignoreFileName is the name of files with patterns of files that are not part of the catalog.
// They are never read as blobs.
const ignoreFileName = ".indexignore"

// Walk yields the blobs of a catalog. It reads every file of the file system, in the order of
// folders and names, except those that .indexignore files exclude. File names do not matter, and
// files may mix JSON and YAML.
//
// The first error ends the walk and is yielded with a zero Meta. It is an *Error if the content
// is invalid, and any other error if the content cannot be read. Memory grows with the largest
// blob and the names in the largest folder, not with the catalog.
//
// Symbolic links to files are followed. A file system that must not be left has to reject links
// that leave it, as os.Root does. Links to folders are an error.
//
// Files are read ahead, on all processors; see Map.
func Walk(fsys fs.FS, limits Limits) iter.Seq2[Meta, error] {
	return Map(fsys, limits, func(m Meta) (Meta, error) { return m, nil })
}

// Read yields the blobs of one file: concatenated JSON objects, JSON lines, YAML documents, or a
// mix. The name is used in errors. See Walk for errors and memory.
func Read(r io.Reader, name string, limits Limits) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		s := newChunkSplitter(r, name, limits.withDefaults(), nil, startOfFile())
		err := readBlobsOfFile(s, func(m Meta) error {
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

// readBlobsOfFile calls visit for each blob of a file. The blob is valid during the call.
func readBlobsOfFile(s *chunkSplitter, visit func(Meta) error) error {
	p := &parser{limits: s.limits}
	for {
		c, err := s.readNextChunk()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := readBlobsOfChunk(s, c, p, visit); err != nil {
			return err
		}
	}
}

// readBlobsOfChunk calls visit for each blob of a chunk.
func readBlobsOfChunk(s *chunkSplitter, c chunk, p *parser, visit func(Meta) error) error {
	p.startChunk(c)
	for {
		meta, err := p.parseNextBlob()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errMaybeIncomplete):
			return readIncompleteDocument(s, p, visit)
		case err != nil:
			return err
		}
		if err := visit(meta); err != nil {
			return err
		}
	}
}

// readIncompleteDocument reads the document at the parser, which may be YAML that continues after
// its chunk.
func readIncompleteDocument(s *chunkSplitter, p *parser, visit func(Meta) error) error {
	// Four more bytes make the separator at its end visible.
	p.startChunk(s.peekFromPosition(p.current, maxYAMLFallbackBytes+4))
	meta, err := p.parseNextBlob()
	if err != nil {
		return err
	}

	s.skipToPosition(p.current)
	return visit(meta)
}

type walker struct {
	fsys   fs.FS
	limits Limits
	// visit is called for each file that is part of the catalog.
	visit func(name string) error
	// seenFiles is the number of files and folders seen so far.
	seenFiles int
}

// walkFolder walks one folder. above are the ignore rules of the folders above it.
func (w *walker) walkFolder(dir string, depth int, above []ignoreRules) error {
	if depth > w.limits.Folders {
		return &Error{File: dir, Err: fmt.Errorf("folders are nested more than %d deep", w.limits.Folders)}
	}

	entries, err := w.listFolderEntries(dir)
	if err != nil {
		return err
	}

	own, err := w.readIgnoreFile(dir, entries)
	if err != nil {
		return err
	}
	if own != nil {
		// The full slice expression keeps sibling folders from sharing the tail.
		above = append(above[:len(above):len(above)], *own)
	}

	for _, entry := range entries {
		if err := w.walkFolderEntry(path.Join(dir, entry.Name()), entry, depth, above); err != nil {
			return err
		}
	}

	return nil
}

// listFolderEntries returns the entries of a folder, sorted by name. It stops reading when the
// limit of files is exceeded.
func (w *walker) listFolderEntries(dir string) ([]fs.DirEntry, error) {
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
		more, err = folder.ReadDir(readDirBatchSize)
		entries = append(entries, more...)
		if w.seenFiles += len(more); w.seenFiles > w.limits.Files {
			return nil, &Error{File: dir, Err: fmt.Errorf("the catalog has more than %d files", w.limits.Files)}
		}
	}

	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the catalog's folder %s: %w", dir, err)
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// readDirBatchSize is the number of folder entries that are read at a time.
const readDirBatchSize = 1000

func (w *walker) walkFolderEntry(name string, entry fs.DirEntry, depth int, above []ignoreRules) error {
	if entry.IsDir() {
		return w.walkFolder(name, depth+1, above)
	}
	if path.Base(name) == ignoreFileName || isFileIgnored(above, name) {
		return nil
	}
	if err := w.checkRegularFile(name, entry); err != nil {
		return err
	}
	return w.visit(name)
}

// checkRegularFile returns an error if an entry is not a regular file. Opening a named pipe, for
// example, could block forever.
func (w *walker) checkRegularFile(name string, entry fs.DirEntry) error {
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

// readIgnoreFile returns the rules of the folder's ignore file, or nil if it has none.
func (w *walker) readIgnoreFile(dir string, entries []fs.DirEntry) (*ignoreRules, error) {
	for _, entry := range entries {
		if entry.Name() != ignoreFileName || entry.IsDir() {
			continue
		}

		name := path.Join(dir, ignoreFileName)
		if err := w.checkRegularFile(name, entry); err != nil {
			return nil, err
		}

		f, err := w.fsys.Open(name)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", name, err)
		}
		defer func() { _ = f.Close() }() // It was only read.
		text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}

		parsed, err := parseIgnoreFile(dir, text)
		if err != nil {
			return nil, &Error{File: name, Err: err}
		}

		return parsed, nil
	}

	return nil, nil
}
