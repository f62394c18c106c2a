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

// Render reads catalogs and bundles and writes them as one file-based catalog. It judges
// nothing but what it cannot read.
type Render struct {
	Registry Registry
	Progress report.Progress

	// Refs are what is read, one after the other: folders that exist, of a bundle or a
	// file-based catalog, SQLite files, and else references of images of any of these.
	Refs []string
	// Migration is the last change that is made to bundles to bring them up to date. Empty
	// means none.
	Migration bundle.Migration
	// ImageTemplate returns the references of the images of bundles that are read from
	// folders. Nil means that they have none.
	ImageTemplate *bundle.ImageTemplate
	// Format is how the catalog is written.
	Format fbc.Format
}

// Run reads everything, and writes it then: nothing is written of what cannot be read.
func (a *Render) Run(ctx context.Context, w io.Writer) error {
	index, done, err := a.index(ctx)
	defer done()
	if err != nil {
		return err
	}
	return writeIndex(ctx, index, a.Format, a.Migration, a.Progress, w)
}

// index reads the references. The returned function closes what has to stay open as long
// as the index is read.
func (a *Render) index(ctx context.Context) (*fbc.Index, func(), error) {
	index := fbc.NewIndex(fbc.Limits{})
	var closers []func()
	done := func() {
		for _, c := range closers {
			c()
		}
	}
	for _, ref := range a.Refs {
		s, err := openSource(ctx, a.Registry, a.Progress, ref, anything)
		if err == nil {
			closers = append(closers, s.close)
			err = a.add(ctx, index, s, ref)
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

// add adds what a reference stands for.
func (a *Render) add(ctx context.Context, index *fbc.Index, s *source, ref string) error {
	switch {
	case s.kind == bundleDir || s.kind == bundleImage:
		blob, err := readBundle(s, ref, a.ImageTemplate, a.Progress)
		if err != nil {
			return err
		}
		return addBundle(index, blob)
	case s.fsys != nil:
		return index.Add(s.fsys)
	}

	for meta, err := range s.metas(ctx, a.Progress) {
		if err != nil {
			return err
		}
		if err := index.AddBlob(meta); err != nil {
			return err
		}
	}

	return nil
}

// readBundle makes the blob of a bundle. The template names the image of one that is in a
// folder, and may be nil.
func readBundle(s *source, ref string, template *bundle.ImageTemplate, progress report.Progress) (*fbc.Bundle, error) {
	b, err := bundle.LoadImage(s.fsys, s.labels)
	if err != nil {
		return nil, err
	}

	Warn(progress, b)
	image := s.image
	if s.kind == bundleDir && template != nil {
		if image, err = template.Image(b, ref); err != nil {
			return nil, err
		}
	}

	blob, err := b.FBC(image, bundle.WithObjects)
	return &blob, err
}

// Warn tells what a bundle has that could not be understood.
func Warn(p report.Progress, b *bundle.Bundle) {
	for _, warning := range b.Warnings {
		report.OrQuiet(p).Warn("bundle " + b.Name() + ": " + warning)
	}
}

// addBundle adds a bundle that stands in no file.
func addBundle(index *fbc.Index, blob *fbc.Bundle) error {
	return index.AddBlob(fbc.Meta{Blob: blob.AppendJSON(nil)})
}

// writeIndex writes a catalog, whose bundles are migrated.
func writeIndex(ctx context.Context, index *fbc.Index, format fbc.Format, last bundle.Migration, progress report.Progress, w io.Writer) error {
	if last == "" || last == bundle.MigrateNone {
		return writeBundles(ctx, index, format, bundle.MigrateNone, progress, w)
	}

	// A bundle that cannot be migrated is found when it is written: only when all are, is
	// the first passed on.
	spool, err := os.CreateTemp("", "mainstay-render-")
	if err != nil {
		return err
	}

	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // it has been read
	if err := writeBundles(ctx, index, format, last, progress, spool); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}

	_, err = io.Copy(w, spool)
	return err
}

func writeBundles(ctx context.Context, index *fbc.Index, format fbc.Format, last bundle.Migration, progress report.Progress, w io.Writer) error {
	dropped, err := fbc.Write(&stoppableWriter{ctx, w}, index, fbc.WriteOptions{Format: format, Bundle: tidy(last)})
	warnDropped(progress, dropped)
	return err
}

// tidy migrates a bundle and brings it into the order that it is written in.
func tidy(last bundle.Migration) func(*fbc.Bundle) error {
	return func(b *fbc.Bundle) error {
		b.Tidy()
		if err := bundle.Migrate(b, last); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	}
}

// maxDropped is how many blobs that are left out are named.
const maxDropped = 10

// warnDropped names the blobs that have no place in what was written.
func warnDropped(progress report.Progress, dropped []fbc.Entry) {
	for i, entry := range dropped {
		if i == maxDropped {
			report.OrQuiet(progress).Warn(fmt.Sprintf("%d more are left out", len(dropped)-i))
			return
		}
		report.OrQuiet(progress).Warn(fmt.Sprintf("%s names no package and is left out", entry))
	}
}

// stoppableWriter fails when the context has ended.
type stoppableWriter struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call of Run
	w   io.Writer
}

// Write writes unless the context has ended.
func (s *stoppableWriter) Write(data []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(data)
}
