package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// temporaryPattern is how a file is called until it is complete.
const temporaryPattern = ".new-*"

// Unpack reads the catalog in a file system and stores it in the place of what was
// stored under the name. On an error nothing has changed: an *fbc.Error says that the
// content is wrong and stays so, any other that reading or writing failed.
func (s *Store) Unpack(ctx context.Context, name string, source Source, fsys fs.FS) (Info, error) {
	if !validName(name) {
		return Info{}, fmt.Errorf("%q cannot be the name of a catalog", name)
	}
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Info{}, s.explain("making the folder of catalog "+name, err)
	}
	slot := s.slot(name)
	slot.writing.Lock()
	defer slot.writing.Unlock()
	file, err := os.CreateTemp(dir, temporaryPattern)
	if err != nil {
		return Info{}, s.explain("storing catalog "+name, err)
	}
	// It removes nothing once the file has its final name.
	defer func() { _ = os.Remove(file.Name()) }()
	err = s.write(ctx, file, source, fsys, slot)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return Info{}, s.explain("storing catalog "+name, err)
	}
	return s.activate(name, file.Name(), slot)
}

// activate puts a complete file in its place and opens it.
func (s *Store) activate(name, temporary string, slot *slot) (Info, error) {
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := os.Rename(temporary, s.path(name)); err != nil {
		return Info{}, s.explain("storing catalog "+name, err)
	}
	if err := s.refresh(name, slot); err != nil {
		return Info{}, fmt.Errorf("reading what was just stored: %w", err)
	}
	return slot.current.info, nil
}

// write writes a content file.
func (s *Store) write(ctx context.Context, file *os.File, source Source, fsys fs.FS, slot *slot) error {
	blobs := newSummer(bufio.NewWriterSize(file, 256<<10))
	build := newBuilder(s.limits)
	lineBreak := []byte{'\n'}
	for meta, err := range fbc.Walk(fsys, s.limits.Walk) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := build.add(meta); err != nil {
			return err
		}
		if _, err := blobs.Write(meta.Blob); err != nil {
			return err
		}
		if _, err := blobs.Write(lineBreak); err != nil {
			return err
		}
	}
	buffer := blobs.w.(*bufio.Writer)
	end := trailer{blobs: blobs.n, blobsSum: blobs.sum()}
	indexed := newSummer(buffer)
	if err := writeIndex(indexed, s.headerFor(source, end, slot), build.index); err != nil {
		return err
	}
	end.index, end.indexSum = indexed.n, indexed.sum()
	if _, err := buffer.Write(end.encode()); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Sync()
}

// headerFor describes new content. Its time of modification is the old one when the
// content is the same, and later when it is not, also within one second.
func (s *Store) headerFor(source Source, end trailer, slot *slot) header {
	now := s.now().UTC()
	h := header{Source: source, Unpacked: now, Modified: now.Truncate(time.Second)}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.current == nil {
		return h
	}
	before := slot.current.info.Modified
	switch {
	case slot.current.sum == end.blobsSum:
		h.Modified = before
	case !h.Modified.After(before):
		h.Modified = before.Add(time.Second)
	}
	return h
}

// explain says what to do about an error of the disk. Errors about the content stay as
// they are.
func (s *Store) explain(doing string, err error) error {
	var content *fbc.Error
	switch {
	case errors.As(err, &content):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: the volume of the catalog cache is full; free space on it or make it larger: %w", doing, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
