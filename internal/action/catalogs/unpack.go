package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// UnpackBundle writes what an image of a bundle has into a folder.
type UnpackBundle struct {
	Registry Registry
	Progress report.Progress

	// Ref is the image.
	Ref string
	// Dir is the folder. It is made; what is there and has a name of the image's is
	// replaced.
	Dir string
	// Check refuses bundles before anything is written. Nil takes all.
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

	fsys, done, err := pullAll(ctx, a.Registry, a.Progress, a.Ref)
	if err != nil {
		return err
	}

	defer done()
	if a.Check != nil {
		if err := a.Check(fsys); err != nil {
			return err
		}
	}

	return copyTree(fsys, ".", a.Dir)
}
