package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// UnpackBundle writes the files of a bundle image into a folder.
type UnpackBundle struct {
	Registry Registry
	Progress report.Progress

	// Ref is the reference of the image.
	Ref string
	// Dir is the output folder. It is created if necessary. Existing files are overwritten.
	Dir string
	// Check refuses invalid bundles before anything is written. Nil accepts all.
	Check func(fs.FS) error
}

// Run pulls the image and writes its files.
func (a *UnpackBundle) Run(ctx context.Context) error {
	switch info, err := os.Stat(a.Dir); {
	case err == nil && !info.IsDir():
		return fmt.Errorf("out %s is not a directory", a.Dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}

	s, err := pullBundleImage(ctx, a.Registry, a.Progress, a.Ref)
	if err != nil {
		return err
	}
	defer s.close()
	if a.Check != nil {
		if err := a.Check(s.fsys); err != nil {
			return err
		}
	}

	return copyFileTree(s.fsys, ".", a.Dir)
}
