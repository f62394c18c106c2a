package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
)

// maxInMemory is how much a spool keeps in memory, in bytes. A bundle has less.
const maxInMemory = 1 << 20

// Space bounds what is kept on a disk.
type Space interface {
	// Reserve makes sure that there is room for bytes, which count until they are released.
	Reserve(bytes int64) error
	// Release returns what was reserved.
	Release(bytes int64)
}

// spool keeps bytes that are written once, by one goroutine, and then read by many.
type spool struct {
	dir    string
	size   int64
	buffer []byte   // all bytes, or those that the file does not have yet
	file   *os.File // nil: all is in memory
	stored int64    // bytes in the file
	// space bounds the file; nil for no bound. reserved is what it was asked for.
	space    Space
	reserved int64

	mu     sync.RWMutex
	closed bool
}

func (s *spool) write(p []byte) (int, error) {
	if len(s.buffer)+len(p) > maxInMemory {
		if err := s.store(); err != nil {
			return 0, err
		}
	}

	if len(p) > maxInMemory {
		if err := s.reserve(len(p)); err != nil {
			return 0, err
		}
		n, err := s.file.Write(p)
		s.stored, s.size = s.stored+int64(n), s.size+int64(n)
		return n, err
	}

	s.buffer = append(s.buffer, p...)
	s.size += int64(len(p))
	return len(p), nil
}

// store moves the buffer into the file.
func (s *spool) store() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "mainstay-image-")
		if err != nil {
			return err
		}
		s.file = file
		// It goes when it is closed, be it because the program ends.
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}

	if err := s.reserve(len(s.buffer)); err != nil {
		return err
	}

	n, err := s.file.Write(s.buffer)
	s.stored += int64(n)
	s.buffer = s.buffer[:0]

	return err
}

// reserve asks for space in the file.
func (s *spool) reserve(bytes int) error {
	if s.space == nil {
		return nil
	}
	if err := s.space.Reserve(int64(bytes)); err != nil {
		return err
	}

	s.reserved += int64(bytes)
	return nil
}

// flush ends the writing.
func (s *spool) flush() error {
	if s.file == nil {
		return nil
	}
	err := s.store()
	s.buffer = nil
	return err
}

// ReadAt reads what was written.
func (s *spool) ReadAt(p []byte, offset int64) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return 0, fs.ErrClosed
	case s.file != nil:
		return s.file.ReadAt(p, offset)
	case offset >= int64(len(s.buffer)):
		return 0, io.EOF
	}

	n := copy(p, s.buffer[offset:])
	if n < len(p) {
		return n, io.EOF
	}

	return n, nil
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the files of the image are closed already")
	}

	s.closed, s.buffer = true, nil
	if s.space != nil {
		defer s.space.Release(s.reserved)
	}
	if s.file == nil {
		return nil
	}

	return s.file.Close()
}
