package catalogstore

import (
	"fmt"
	"io"

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

// spaceCheckStep is the number of bytes written between two checks of the used space.
const spaceCheckStep = 1 << 20

// spaceWriter writes a file of the store. It returns a *FullError if there is no space left.
type spaceWriter struct {
	io.Writer
	volume *volume
	// allowed is the number of bytes that can be written before the next check.
	allowed int64
}

func (w *spaceWriter) Write(p []byte) (int, error) {
	if need := int64(len(p)); need > w.allowed {
		step := max(need, spaceCheckStep)
		if err := w.volume.checkFreeSpace(step); err != nil {
			return 0, err
		}
		w.allowed = step
	}

	w.allowed -= int64(len(p))
	return w.Writer.Write(p)
}
