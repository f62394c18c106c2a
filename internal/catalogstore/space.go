package catalogstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
)

// FullError is returned if storing a catalog would exceed the size limit of the store.
type FullError struct {
	// Used is the size of all files that are stored or being written, in bytes.
	Used int64
	// Limit is the size limit, in bytes.
	Limit int64
}

// Error implements error. The text includes advice.
func (e *FullError) Error() string {
	return fmt.Sprintf("the store of catalogs is full: %s of %s are in use, and this catalog needs more; delete catalogs, or raise --catalogs-size-limit and the size of its volume",
		formatBytes(e.Used), formatBytes(e.Limit))
}

func formatBytes(n int64) string {
	const mebi = 1 << 20
	if n >= mebi {
		n -= n % mebi
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// space limits the disk space of the store. The used space is measured instead of counted, because
// other programs can delete files.
type space struct {
	limit int64
	// reserved is the size of unnamed files, which cannot be measured, in bytes.
	reserved atomic.Int64
}

// Reserve reserves space for an unnamed file in the Scratch directory until Release is called. It returns
// a *FullError if the space is not available.
func (s *Store) Reserve(bytes int64) error {
	if err := s.checkFreeSpace(bytes); err != nil {
		return err
	}
	s.space.reserved.Add(bytes)
	return nil
}

// Release releases reserved space.
func (s *Store) Release(bytes int64) { s.space.reserved.Add(-bytes) }

// checkFreeSpace returns a *FullError if there is no space for more bytes.
func (s *Store) checkFreeSpace(more int64) error {
	list, err := listDirectory(s.contentDir())
	if err != nil {
		return err
	}

	used := s.space.reserved.Load()
	for _, entry := range list {
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			used += info.Size()
		}
	}

	if used+more > s.space.limit {
		return &FullError{Used: used, Limit: s.space.limit}
	}

	return nil
}

// spaceCheckStep is the number of bytes written between two checks of the used space.
const spaceCheckStep = 1 << 20

// spaceWriter writes a file of the store. It returns a *FullError if there is no space left.
type spaceWriter struct {
	io.Writer
	store *Store
	// allowed is the number of bytes that can be written before the next check.
	allowed int64
}

func (w *spaceWriter) Write(p []byte) (int, error) {
	if need := int64(len(p)); need > w.allowed {
		step := max(need, spaceCheckStep)
		if err := w.store.checkFreeSpace(step); err != nil {
			return 0, err
		}
		w.allowed = step
	}

	w.allowed -= int64(len(p))
	return w.Writer.Write(p)
}
