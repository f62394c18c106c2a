package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Migrate writes a catalog as files of a file-based catalog.
type Migrate struct {
	Registry Registry
	Progress report.Progress

	// Ref is a catalog: a folder, an image or a SQLite file.
	Ref string
	// Dir is the output folder. It must be empty or not exist.
	Dir string
	// Migration is the last migration that is applied to bundles. Empty means none.
	Migration bundle.Migration
	// Format is the format of the files.
	Format fbc.Format
}

// Run reads the catalog and writes one file for each package. It removes the files after a
// failure.
func (a *Migrate) Run(ctx context.Context) error {
	if entries, err := os.ReadDir(a.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("output dir %q must be empty", a.Dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	s, err := openReference(ctx, a.Registry, a.Progress, a.Ref, anyCatalog)
	if err != nil {
		return fmt.Errorf("render catalog image: render reference %q: %w", a.Ref, err)
	}
	defer s.close()
	report.OrQuiet(a.Progress).Done(fmt.Sprintf("rendering catalog %q as file-based catalog", a.Ref))
	index := fbc.NewIndex(fbc.Limits{})
	if err := (&Render{Progress: a.Progress}).addSourceToIndex(ctx, index, s, a.Ref); err != nil {
		return fmt.Errorf("render catalog image: render reference %q: %w", a.Ref, err)
	}
	if err := a.writeCatalogFiles(ctx, index); err != nil {
		return err
	}

	report.OrQuiet(a.Progress).Done(fmt.Sprintf("wrote rendered file-based catalog to %q", a.Dir))
	return nil
}

// writeCatalogFiles writes the files of the index. After an error it empties the folder.
func (a *Migrate) writeCatalogFiles(ctx context.Context, index *fbc.Index) (err error) {
	if err := os.MkdirAll(a.Dir, 0o777); err != nil { //nolint:gosec // the user's umask decides
		return err
	}

	root, err := os.OpenRoot(a.Dir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeFolderContents(root, a.Dir))
		}
		_ = root.Close() // every file of it was closed
	}()

	create := func(name string) (io.WriteCloser, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return nil, err
		}
		return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}

	dropped, err := fbc.WriteFiles(create, index, fbc.WriteOptions{Format: a.Format, Bundle: newBundleMigrator(a.Migration)})
	warnDroppedBlobs(a.Progress, dropped)

	return err
}

// removeFolderContents removes everything in a folder.
func removeFolderContents(root *os.Root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	for _, entry := range entries {
		if err := root.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
