package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Render reads catalogs and bundles and writes them as one file-based catalog. It does not
// validate them.
type Render struct {
	Registry Registry
	Progress report.Progress

	// Refs are read in order: existing folders of a bundle or a file-based catalog, SQLite
	// files, and otherwise references of images of any of these.
	Refs []string
	// Migration is the last migration that is applied to bundles. Empty means none.
	Migration bundle.Migration
	// ImageTemplate returns the image references of bundles that are read from folders. Nil
	// means that they have no reference.
	ImageTemplate *bundle.ImageTemplate
	// Format is the output format.
	Format fbc.Format
}

// Run reads all references, then writes the catalog. Nothing is written if one of them
// cannot be read.
func (a *Render) Run(ctx context.Context, w io.Writer) error {
	index, done, err := a.readReferences(ctx)
	defer done()
	if err != nil {
		return err
	}
	return writeCatalogIndex(ctx, index, a.Format, a.Migration, a.Progress, w)
}

// readReferences reads the references. The returned function closes the sources, which must stay
// open while the index is read. It is never nil.
func (a *Render) readReferences(ctx context.Context) (*fbc.Index, func(), error) {
	index := fbc.NewIndex(fbc.Limits{})
	var closers []func()
	done := func() {
		for _, c := range closers {
			c()
		}
	}
	for _, ref := range a.Refs {
		s, err := openReference(ctx, a.Registry, a.Progress, ref, anything)
		if err == nil {
			closers = append(closers, s.close)
			err = a.addSourceToIndex(ctx, index, s, ref)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, done, fmt.Errorf("render reference %q: %w", ref, err)
		}
	}

	return index, done, nil
}

// addSourceToIndex adds the content of a reference to the index.
func (a *Render) addSourceToIndex(ctx context.Context, index *fbc.Index, s *source, ref string) error {
	switch {
	case s.kind == bundleDir || s.kind == bundleImage:
		blob, err := readBundleBlob(s, ref, a.ImageTemplate, a.Progress)
		if err != nil {
			return err
		}
		return addBundleBlob(index, blob)
	case s.fsys != nil:
		return index.Add(s.fsys)
	}

	for meta, err := range s.readCatalogBlobs(ctx, a.Progress) {
		if err != nil {
			return err
		}
		if err := index.AddBlob(meta); err != nil {
			return err
		}
	}

	return nil
}

// readBundleBlob returns the olm.bundle blob of a bundle. The template, which may be nil,
// returns the image reference of a bundle in a folder.
func readBundleBlob(s *source, ref string, template *bundle.ImageTemplate, progress report.Progress) (*fbc.Bundle, error) {
	b, err := bundle.LoadImage(s.fsys, s.labels)
	if err != nil {
		return nil, err
	}

	WarnBundle(progress, b)
	image := s.image
	if s.kind == bundleDir && template != nil {
		if image, err = template.Image(b, ref); err != nil {
			return nil, err
		}
	}

	blob, err := b.FBC(image, bundle.WithObjects)
	return &blob, err
}

// WarnBundle reports the warnings of a bundle: content that could not be parsed.
func WarnBundle(p report.Progress, b *bundle.Bundle) {
	for _, warning := range b.Warnings {
		report.OrQuiet(p).Warn("bundle " + b.Name() + ": " + warning)
	}
}

// addBundleBlob adds a bundle that is not from a catalog file.
func addBundleBlob(index *fbc.Index, blob *fbc.Bundle) error {
	return index.AddBlob(fbc.Meta{Blob: blob.AppendJSON(nil)})
}

// writeCatalogIndex migrates the bundles of a catalog and writes it. Nothing is written if a
// migration fails.
func writeCatalogIndex(ctx context.Context, index *fbc.Index, format fbc.Format, last bundle.Migration, progress report.Progress, w io.Writer) error {
	if last == "" || last == bundle.MigrateNone {
		return writeMigratedIndex(ctx, index, format, bundle.MigrateNone, progress, w)
	}

	// Bundles are migrated while they are written. The output is spooled so that a failed
	// migration leaves no partial output.
	spool, err := os.CreateTemp("", "mainstay-render-")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // it has been read
	if err := writeMigratedIndex(ctx, index, format, last, progress, spool); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}

	_, err = io.Copy(w, spool)
	return err
}

// writeMigratedIndex writes a catalog and migrates its bundles while it does so.
func writeMigratedIndex(ctx context.Context, index *fbc.Index, format fbc.Format, last bundle.Migration, progress report.Progress, w io.Writer) error {
	dropped, err := fbc.Write(&contextWriter{ctx, w}, index, fbc.WriteOptions{Format: format, Bundle: newBundleMigrator(last)})
	warnDroppedBlobs(progress, dropped)
	return err
}

// newBundleMigrator returns a function that migrates a bundle and sorts its content for
// output.
func newBundleMigrator(last bundle.Migration) func(*fbc.Bundle) error {
	return func(b *fbc.Bundle) error {
		b.Tidy()
		if err := bundle.Migrate(b, last); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	}
}

// maxDroppedWarnings limits the number of dropped blobs that are named.
const maxDroppedWarnings = 10

// warnDroppedBlobs warns about blobs that were not written because they name no package.
func warnDroppedBlobs(progress report.Progress, dropped []fbc.Entry) {
	for i, entry := range dropped {
		if i == maxDroppedWarnings {
			report.OrQuiet(progress).Warn(fmt.Sprintf("%d more are left out", len(dropped)-i))
			return
		}
		report.OrQuiet(progress).Warn(fmt.Sprintf("%s names no package and is left out", entry))
	}
}

// contextWriter is a writer that fails after its context has ended.
type contextWriter struct {
	ctx context.Context //nolint:containedctx // it is used within one call of Run
	w   io.Writer
}

// Write implements io.Writer.
func (s *contextWriter) Write(data []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(data)
}
