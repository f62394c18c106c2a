package catalogstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
)

// FullError reports that the store of all catalogs would become larger than its limit.
type FullError struct {
	// Used is the size of what is stored and being stored, in bytes.
	Used int64
	// Limit is the bound of it, in bytes.
	Limit int64
}

// Error says what to do.
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

// space bounds what the store has on the disk. What is stored is measured and not counted
// along the way, because files may be deleted by others.
type space struct {
	limit int64
	// reserved has the bytes of files that have no name and cannot be measured.
	reserved atomic.Int64
}

// Reserve makes sure that there is room for bytes below the Scratch folder that are written to
// a file without a name. They count until Release is called.
func (s *Store) Reserve(bytes int64) error {
	if err := s.checkSpace(bytes); err != nil {
		return err
	}
	s.space.reserved.Add(bytes)
	return nil
}

// Release returns what was reserved.
func (s *Store) Release(bytes int64) { s.space.reserved.Add(-bytes) }

// checkSpace returns a *FullError if there is no room for more bytes.
func (s *Store) checkSpace(more int64) error {
	list, err := entries(s.contentDir())
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

// spaceStep is how much is written, in bytes, between two looks at the space.
const spaceStep = 1 << 20

// spaceWriter writes a file of the store until there is no space left.
type spaceWriter struct {
	io.Writer
	store *Store
	// allowed may be written before the next look.
	allowed int64
}

func (w *spaceWriter) Write(p []byte) (int, error) {
	if need := int64(len(p)); need > w.allowed {
		step := max(need, spaceStep)
		if err := w.store.checkSpace(step); err != nil {
			return 0, err
		}
		w.allowed = step
	}

	w.allowed -= int64(len(p))
	return w.Writer.Write(p)
}
