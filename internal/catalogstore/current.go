package catalogstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// damagedFile describes a content file that is known to be damaged, so that it is not read again until
// it is replaced.
type damagedFile struct {
	stat os.FileInfo
	err  error
}

// errClosed is returned after the store was closed.
var errClosed = errors.New("the store of catalogs is closed")

// refreshSlot ensures that the pointer of a slot and the content file that it names are intact on disk
// and that the file is open. After an error, the file of the slot is older content that can still be
// read, or nil. The first error reports the loss to the OnLost handlers. The caller holds the mu of the
// slot.
func (s *Store) refreshSlot(slot *catalogSlot) error {
	err := s.reopenSlot(slot)
	if err == nil {
		slot.lossReported = false
		return nil
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, errClosed) {
		return err
	}
	if !slot.lossReported {
		slot.lossReported = true
		s.notifyLost(slot.name)
	}

	return &DamagedError{Catalog: slot.name, Err: err}
}

func (s *Store) reopenSlot(slot *catalogSlot) error {
	if slot.file != nil {
		if err := slot.file.checkUsable(); err != nil {
			// The open file is damaged as well.
			slot.replaceFile(nil)
			s.markDamaged(slot.pointer.Content, err)
		}
	}

	if err := s.refreshPointer(slot); err != nil {
		return err
	}
	if slot.file != nil && slot.file.checkIntact() == nil {
		return nil
	}

	f, err := s.acquireFile(slot.pointer.Content)
	if err != nil {
		return err
	}

	slot.replaceFile(f)
	f.releaseReference()
	return nil
}

// replaceFile sets the file of the slot, and moves the reference from the old file to the new one. The
// caller holds the mu of the slot.
func (s *catalogSlot) replaceFile(f *contentFile) {
	if f != nil {
		f.addReference()
	}
	if s.file != nil {
		s.file.releaseReference()
	}
	s.file = f
}

// refreshPointer reads the pointer of a slot again if its file was changed. It returns ErrNotFound if
// the slot has never had content.
func (s *Store) refreshPointer(slot *catalogSlot) error {
	info, err := os.Stat(s.pointerPath(slot.name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && slot.pointer.Content == "" && slot.problem == nil:
		return ErrNotFound
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("its file does not exist")
	case err != nil:
		return err
	case slot.stat == nil || !isSameFile(info, slot.stat):
		slot.loadPointer(s.pointerPath(slot.name))
	}

	return slot.problem
}

// loadPointer reads the pointer of the slot from a file. If the file cannot be read or names other
// content, it sets problem and keeps the known pointer.
func (s *catalogSlot) loadPointer(path string) {
	var read pointer
	read, s.stat, s.problem = readPointerFile(path)
	switch {
	case s.problem != nil:
	case s.pointer.Content == "" || s.pointer.Content == read.Content:
		s.pointer = read
	default:
		s.problem = errors.New("its file was replaced")
	}
}

func readPointerFile(path string) (pointer, os.FileInfo, error) {
	opened, err := os.Open(path)
	if err != nil {
		return pointer{}, nil, err
	}
	defer func() { _ = opened.Close() }() // The file is only read.
	stat, err := opened.Stat()
	if err != nil {
		return pointer{}, nil, err
	}

	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(opened, maxPointerSize)); err != nil {
		return pointer{}, stat, err
	}

	p, err := decodePointer(text.Bytes())
	return p, stat, err
}

// acquireFile returns the file of a content and adds a reference for the caller. It opens the file
// unless it is open already. The index is read without holding mu, so that other catalogs are not
// blocked.
func (s *Store) acquireFile(content string) (*contentFile, error) {
	if open, err := s.acquireOpenFile(content); open != nil || err != nil {
		return open, err
	}

	path := s.contentPath(content)
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("its file does not exist")
	}
	if err != nil {
		return nil, err
	}
	if err := s.knownDamage(content, stat); err != nil {
		return nil, err
	}

	f, err := openContentFile(path, content)

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.damaged[content] = damagedFile{stat: stat, err: err}
		return nil, err
	case s.closed:
		f.retireFile()
		return nil, errClosed
	}

	if open := s.files[content]; open != nil && open.checkIntact() == nil {
		f.retireFile() // Another catalog with the same content has opened it first.
		open.addReference()
		return open, nil
	}

	f.addReference()
	s.installFileLocked(f)
	s.verifyInBackgroundLocked(f)

	return f, nil
}

// acquireOpenFile returns the open file of a content with a reference for the caller, or nil if there is
// no intact open file.
func (s *Store) acquireOpenFile(content string) (*contentFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}

	open := s.files[content]
	if open == nil || open.checkIntact() != nil {
		return nil, nil
	}

	open.addReference()
	return open, nil
}

// knownDamage returns the recorded damage of a file that has not changed since, or nil.
func (s *Store) knownDamage(content string, stat os.FileInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad, known := s.damaged[content]; known && isSameFile(bad.stat, stat) {
		return bad.err
	}
	return nil
}

// installFileLocked makes f the open file of its content, and retires the previous one. The caller holds
// mu.
func (s *Store) installFileLocked(f *contentFile) {
	if old := s.files[f.contentSum]; old != nil {
		old.retireFile()
	}

	delete(s.damaged, f.contentSum)
	s.files[f.contentSum] = f
	f.onDamage = func(err error) {
		s.markDamaged(f.contentSum, err)
		s.Check()
	}
}

// verifyInBackgroundLocked starts the verification of all blobs of a file. The store verifies one file
// at a time. Readers do not wait for it. The caller holds mu.
func (s *Store) verifyInBackgroundLocked(f *contentFile) {
	s.runInBackgroundLocked(f, func() {
		select {
		case s.verifying <- struct{}{}:
			defer func() { <-s.verifying }()
			f.verifyAllBlobs()
		case <-f.stop:
		}
	})
}

// runInBackground runs work in a goroutine that holds a reference to the file. The caller holds a
// reference too.
func (s *Store) runInBackground(f *contentFile, work func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runInBackgroundLocked(f, work)
}

// runInBackgroundLocked is runInBackground for callers that hold mu. It does nothing if the store is
// closed.
func (s *Store) runInBackgroundLocked(f *contentFile, work func()) {
	if s.closed {
		return
	}

	f.addReference()
	s.backgroundWork.Go(func() {
		defer f.releaseReference()
		work()
	})
}

// markDamaged retires the open file of a content if it is damaged, and records the damage.
func (s *Store) markDamaged(content string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[content]
	if f == nil || f.checkUsable() == nil {
		return
	}

	delete(s.files, content)
	f.retireFile()
	if stat, statErr := os.Stat(f.path); statErr == nil && os.SameFile(stat, f.stat) {
		s.damaged[content] = damagedFile{stat: stat, err: err}
	}
}

// releaseClaim removes the claim of a catalog on a content. Content without claims is removed from disk
// with its compressed forms.
func (s *Store) releaseClaim(content string) error {
	if content == "" {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[content]--; s.claims[content] > 0 {
		return nil
	}

	delete(s.claims, content)
	delete(s.damaged, content)
	if f := s.files[content]; f != nil {
		delete(s.files, content)
		f.retireFile()
	}

	path := s.contentPath(content)
	err := s.disk.removeFile(path)
	for _, encoding := range Encodings {
		err = errors.Join(ignoreMissing(err), ignoreMissing(s.disk.removeFile(path+"."+string(encoding))))
	}

	if err != nil {
		return fmt.Errorf("removing unused content: %w", err)
	}

	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
