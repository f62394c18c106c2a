package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
)

// maxSpoolMemory is how many bytes a spool keeps in memory. A bundle has less.
const maxSpoolMemory = 1 << 20

// Space limits the use of a disk.
type Space interface {
	// Reserve reserves bytes until they are released. It returns an error when there is not
	// enough space.
	Reserve(bytes int64) error
	// Release releases reserved bytes.
	Release(bytes int64)
}

// spool stores bytes that one goroutine writes once, and many read afterwards.
type spool struct {
	dir    string
	size   int64
	buffer []byte   // all bytes, or those that are not in the file yet
	file   *os.File // nil when everything is in memory
	stored int64    // bytes in the file
	// space limits the file; nil means no limit. reserved is the size reserved in it.
	space    Space
	reserved int64

	mu     sync.RWMutex
	closed bool
}

func (s *spool) write(p []byte) (int, error) {
	if len(s.buffer)+len(p) > maxSpoolMemory {
		if err := s.spillToFile(); err != nil {
			return 0, err
		}
	}

	if len(p) > maxSpoolMemory {
		if err := s.reserveSpace(len(p)); err != nil {
			return 0, err
		}
		n, err := s.file.Write(p)
		s.stored += int64(n)
		s.size += int64(n)
		return n, err
	}

	s.buffer = append(s.buffer, p...)
	s.size += int64(len(p))
	return len(p), nil
}

// spillToFile moves the buffer into the file.
func (s *spool) spillToFile() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "mainstay-image-")
		if err != nil {
			return err
		}
		s.file = file
		// The system frees the file when it is closed, even if the program crashes.
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}

	if err := s.reserveSpace(len(s.buffer)); err != nil {
		return err
	}

	n, err := s.file.Write(s.buffer)
	s.stored += int64(n)
	s.buffer = s.buffer[:0]

	return err
}

// reserveSpace reserves space for bytes of the file.
func (s *spool) reserveSpace(bytes int) error {
	if s.space == nil {
		return nil
	}
	if err := s.space.Reserve(int64(bytes)); err != nil {
		return err
	}

	s.reserved += int64(bytes)
	return nil
}

// flush ends the writing. It must be called before ReadAt.
func (s *spool) flush() error {
	if s.file == nil {
		return nil
	}
	err := s.spillToFile()
	s.buffer = nil
	return err
}

// ReadAt implements io.ReaderAt.
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

	s.closed = true
	s.buffer = nil
	if s.space != nil {
		defer s.space.Release(s.reserved)
	}
	if s.file == nil {
		return nil
	}

	return s.file.Close()
}
