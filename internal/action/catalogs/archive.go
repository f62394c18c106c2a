package catalogs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// WriteArchive writes images, as one OCI archive under a reference, to a file. A failure
// leaves no broken file.
func WriteArchive(name, ref string, images ...*image.Built) error {
	object := fmt.Sprintf("file %q", name)
	file, err := os.CreateTemp(filepath.Dir(name), ".mainstay-*.tar")
	if err != nil {
		return &report.Error{Object: object, Err: err}
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already when all went well
	if err := errors.Join(image.WriteArchive(file, ref, images...), file.Chmod(0o644), file.Close()); err != nil {
		return &report.Error{Object: object, Err: err}
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return &report.Error{Object: object, Err: err}
	}
	return nil
}
