package catalogstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// badFile is a content file that was found damaged, so that it is not read again and
// again while nothing takes its place.
type badFile struct {
	stat os.FileInfo
	err  error
}

// errClosed says that the store is not used any more.
var errClosed = errors.New("the store of catalogs is closed")

// refresh makes sure that the file of a slot has what its pointer names, and that both are
// on the disk. An error says that they are not; the slot's file then is what can still be
// read, or nil. The slot's mu is held.
func (s *Store) refresh(slot *slot) error {
	err := s.reopen(slot)
	if err == nil {
		slot.told = false
		return nil
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, errClosed) {
		return err
	}
	if !slot.told {
		slot.told = true
		s.tell(slot.name)
	}

	return &DamagedError{Catalog: slot.name, Err: err}
}

func (s *Store) reopen(slot *slot) error {
	if slot.file != nil {
		if err := slot.file.usable(); err != nil {
			// What is open is damaged as well.
			slot.use(nil)
			s.condemn(slot.pointer.Content, err)
		}
	}

	if err := s.checkPointer(slot); err != nil {
		return err
	}
	if slot.file != nil && slot.file.intact() == nil {
		return nil
	}

	f, err := s.acquire(slot.pointer.Content)
	if err != nil {
		return err
	}

	slot.use(f)
	f.letGo()
	return nil
}

// use makes a file that of the slot, whose mu is held.
func (s *slot) use(f *file) {
	if f != nil {
		f.hold()
	}
	if s.file != nil {
		s.file.letGo()
	}
	s.file = f
}

// checkPointer looks at the file of a slot's pointer.
func (s *Store) checkPointer(slot *slot) error {
	info, err := os.Stat(s.pointerPath(slot.name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && slot.pointer.Content == "" && slot.problem == nil:
		return ErrNotFound
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("its file is gone")
	case err != nil:
		return err
	case slot.stat == nil || !same(info, slot.stat):
		slot.readPointer(s.pointerPath(slot.name))
	}

	return slot.problem
}

// readPointer reads the file of a pointer. What cannot be read does not change what is
// known already.
func (s *slot) readPointer(path string) {
	var read pointer
	read, s.stat, s.problem = readPointer(path)
	switch {
	case s.problem != nil:
	case s.pointer.Content == "" || s.pointer.Content == read.Content:
		s.pointer = read
	default:
		s.problem = errors.New("its file was replaced")
	}
}

func readPointer(path string) (pointer, os.FileInfo, error) {
	opened, err := os.Open(path)
	if err != nil {
		return pointer{}, nil, err
	}

	defer func() { _ = opened.Close() }() // It is only read.
	stat, err := opened.Stat()
	if err != nil {
		return pointer{}, nil, err
	}

	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(opened, pointerBytes)); err != nil {
		return pointer{}, stat, err
	}

	p, err := decodePointer(text.Bytes())
	return p, stat, err
}

// acquire opens the file of a content, unless it is open already. It is held for the
// caller. The index is read without mu, so that no other catalog waits for it.
func (s *Store) acquire(content string) (*file, error) {
	if open, err := s.holdOpen(content); open != nil || err != nil {
		return open, err
	}

	path := s.contentPath(content)
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("its file is gone")
	}
	if err != nil {
		return nil, err
	}
	if err := s.knownBad(content, stat); err != nil {
		return nil, err
	}

	f, err := openFile(path, content)

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.bad[content] = badFile{stat: stat, err: err}
		return nil, err
	case s.closed:
		f.retire()
		return nil, errClosed
	}

	if open := s.files[content]; open != nil && open.intact() == nil {
		f.retire() // Another catalog with the same content was faster.
		open.hold()
		return open, nil
	}

	f.hold()
	s.install(f)
	s.verify(f)

	return f, nil
}

// holdOpen returns the open file of a content, held for the caller; nil when there is none.
func (s *Store) holdOpen(content string) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}

	open := s.files[content]
	if open == nil || open.intact() != nil {
		return nil, nil
	}

	open.hold()
	return open, nil
}

// knownBad returns why a file that was not changed since could not be used.
func (s *Store) knownBad(content string, stat os.FileInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad, known := s.bad[content]; known && same(bad.stat, stat) {
		return bad.err
	}
	return nil
}

// install makes an open file that of its content. mu is held.
func (s *Store) install(f *file) {
	if old := s.files[f.content]; old != nil {
		old.retire()
	}

	delete(s.bad, f.content)
	s.files[f.content] = f
	f.onDamage = func(err error) {
		s.condemn(f.content, err)
		s.Check()
	}
}

// verify compares the blobs of a file with their sums, one file of the store at a time. Its
// readers need not wait for that. mu is held.
func (s *Store) verify(f *file) {
	s.spawn(f, func() {
		select {
		case s.verifying <- struct{}{}:
			defer func() { <-s.verifying }()
			f.verify()
		case <-f.stop:
		}
	})
}

// background does something for a file that is held by the caller.
func (s *Store) background(f *file, work func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spawn(f, work)
}

func (s *Store) spawn(f *file, work func()) {
	if s.closed {
		return
	}

	f.hold()
	s.work.Go(func() {
		defer f.letGo()
		work()
	})
}

// condemn notes that the file of a content cannot be used.
func (s *Store) condemn(content string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[content]
	if f == nil || f.usable() == nil {
		return
	}

	delete(s.files, content)
	f.retire()
	if stat, statErr := os.Stat(f.path); statErr == nil && os.SameFile(stat, f.stat) {
		s.bad[content] = badFile{stat: stat, err: err}
	}
}

// unclaim notes that a catalog has a content no more. What nobody has is removed.
func (s *Store) unclaim(content string) error {
	if content == "" {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[content]--; s.claims[content] > 0 {
		return nil
	}

	delete(s.claims, content)
	delete(s.bad, content)
	if f := s.files[content]; f != nil {
		delete(s.files, content)
		f.retire()
	}

	path := s.contentPath(content)
	err := s.disk.remove(path)
	for _, encoding := range Encodings {
		err = errors.Join(ignoreMissing(err), ignoreMissing(s.disk.remove(path+"."+string(encoding))))
	}

	if err != nil {
		return fmt.Errorf("removing content that no catalog has: %w", err)
	}

	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
