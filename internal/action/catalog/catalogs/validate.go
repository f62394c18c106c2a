package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Validate validates a file-based catalog.
type Validate struct {
	// Dir is the folder of the catalog.
	Dir string
	// Strict makes findings errors.
	Strict bool
	// Warn is called for each finding of a valid catalog, unless Strict is set.
	Warn func(fbc.Finding)
}

// Run validates the catalog against all rules of file-based catalogs. It returns all
// violations as one *fbc.TreeError. A folder without files is a valid catalog.
func (a *Validate) Run(ctx context.Context) error {
	info, err := os.Stat(a.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%q is not a directory", a.Dir)
	}

	fsys, done, err := OpenFolder(a.Dir)
	if err != nil {
		return err
	}
	defer done()

	model, err := fbc.LoadModelFS(fsys, fbc.Limits{})
	if err := errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	if a.Strict {
		return fbc.NewFindingsError(model.Findings)
	}
	for _, finding := range model.Findings {
		a.Warn(finding)
	}

	return nil
}

// ValidateCatalogContent validates a catalog that is to be built into an image, which must not be
// empty. Errors name the object.
func ValidateCatalogContent(ctx context.Context, fsys fs.FS, object string) error {
	model, err := fbc.LoadModelFS(fsys, fbc.Limits{})
	if err == nil && len(model.Packages) == 0 {
		err = errors.New("it holds no packages")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &report.Error{Object: object, Err: err, Advice: "correct the catalog"}
	}

	return nil
}
