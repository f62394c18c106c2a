package catalogs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/indexdb"
)

// Change is a change to a SQLite catalog.
type Change interface {
	applyToCatalog(ctx context.Context, e *indexdb.Editor) error
}

// preparer is a change that reads its input before the database is opened.
type preparer interface {
	prepareChange(ctx context.Context) error
}

// AddBundles adds bundles to a SQLite catalog.
type AddBundles struct {
	Registry Registry
	Progress report.Progress

	// Images are the references of the bundle images.
	Images []string
	// Mode places the bundles in the upgrade graph: replaces, semver or semver-skippatch.
	Mode string
	// OverwriteLatest replaces a bundle of the same name if it is the head of its channels.
	OverwriteLatest bool
	// EnableAlpha allows bundles that substitute for others (substitutesFor).
	EnableAlpha bool
	// Permissive adds the valid bundles and warns about the others.
	Permissive bool

	mode    indexdb.Mode
	bundles []indexdb.Bundle
}

// ValidateMode returns an error if Mode is not known.
func (a *AddBundles) ValidateMode() error {
	_, err := indexdb.ParseMode(a.Mode)
	return err
}

// prepareChange parses the mode and reads the bundles from their images.
func (a *AddBundles) prepareChange(ctx context.Context) error {
	var err error
	if a.mode, err = indexdb.ParseMode(a.Mode); err != nil {
		return err
	}

	a.bundles = nil
	for _, ref := range a.Images {
		b, err := a.loadBundle(ctx, ref)
		if err != nil {
			return err
		}
		a.bundles = append(a.bundles, b)
		report.OrQuiet(a.Progress).Done("bundle " + b.Name + " read from " + ref)
	}

	return nil
}

func (a *AddBundles) applyToCatalog(ctx context.Context, e *indexdb.Editor) error {
	return e.Add(ctx, a.bundles, indexdb.AddOptions{
		Mode: a.mode, OverwriteLatest: a.OverwriteLatest, EnableAlpha: a.EnableAlpha, Permissive: a.Permissive,
	})
}

// loadBundle reads a bundle from its image.
func (a *AddBundles) loadBundle(ctx context.Context, ref string) (indexdb.Bundle, error) {
	s, err := openReference(ctx, a.Registry, a.Progress, ref, bundleImage)
	if err != nil {
		return indexdb.Bundle{}, fmt.Errorf("bundle %q: %w", ref, err)
	}
	defer s.close()
	b, err := bundle.LoadImage(s.fsys, s.labels)
	if err != nil {
		return indexdb.Bundle{}, fmt.Errorf("bundle %q: %w", ref, err)
	}

	WarnBundle(a.Progress, b)
	return indexdb.FromBundle(b, ref)
}

// RemovePackages removes packages from a SQLite catalog.
type RemovePackages struct {
	Packages []string
	// Permissive warns about packages that do not exist instead of failing.
	Permissive bool
}

func (a *RemovePackages) applyToCatalog(ctx context.Context, e *indexdb.Editor) error {
	return e.RemovePackages(ctx, a.Packages, a.Permissive)
}

// PrunePackages removes all packages except those of Keep.
type PrunePackages struct {
	// Keep are the names of the packages that remain.
	Keep       []string
	Permissive bool
}

func (a *PrunePackages) applyToCatalog(ctx context.Context, e *indexdb.Editor) error {
	return e.PrunePackages(ctx, a.Keep, a.Permissive)
}

// PruneStranded removes bundles that are in no channel.
type PruneStranded struct{}

func (*PruneStranded) applyToCatalog(ctx context.Context, e *indexdb.Editor) error {
	return e.PruneStranded(ctx)
}

// DeprecateBundles deprecates bundles and removes the bundles that they replace, directly
// or indirectly.
type DeprecateBundles struct {
	Images []string
	// AllowPackageRemoval allows all heads of a package to be deprecated, which removes the
	// package.
	AllowPackageRemoval bool
	Permissive          bool
}

func (a *DeprecateBundles) applyToCatalog(ctx context.Context, e *indexdb.Editor) error {
	options := indexdb.DeprecateOptions{AllowPackageRemoval: a.AllowPackageRemoval, Permissive: a.Permissive}
	return e.DeprecateTruncate(ctx, a.Images, options)
}

// EditDatabase changes a SQLite catalog file. The change is atomic.
type EditDatabase struct {
	Progress report.Progress

	// Path is the path of the file.
	Path string
	// Create creates the file if it does not exist.
	Create bool
	Change Change
}

// Run prepares and applies the change.
func (a *EditDatabase) Run(ctx context.Context) error {
	if p, ok := a.Change.(preparer); ok {
		if err := p.prepareChange(ctx); err != nil {
			return err
		}
	}
	options := indexdb.EditOptions{Options: warningOptions(a.Progress), CreateIfMissing: a.Create}
	return indexdb.Edit(ctx, a.Path, options, func(e *indexdb.Editor) error { return a.Change.applyToCatalog(ctx, e) })
}

// warningOptions returns options that report the warnings of a database to progress.
func warningOptions(progress report.Progress) indexdb.Options {
	return indexdb.Options{Warn: func(message string, err error) {
		if err != nil {
			message += ": " + err.Error()
		}
		report.OrQuiet(progress).Warn(message)
	}}
}

// DatabaseNotice is the warning that every use of a SQLite catalog prints.
const DatabaseNotice = "DEPRECATION NOTICE: SQLite-based catalogs and their subcommands are deprecated. Support for them will be removed in a future release: migrate your catalogs to the file-based format with 'opm migrate'."

// ReadDatabase yields the blobs of a SQLite catalog.
func ReadDatabase(ctx context.Context, progress report.Progress, path string) iter.Seq2[fbc.Meta, error] {
	return openAndReadDatabase(ctx, progress, path, (*indexdb.Index).Metas)
}

// ReadServedDatabase yields the blobs of a SQLite catalog for a registry server: deprecated
// bundles are included.
func ReadServedDatabase(ctx context.Context, progress report.Progress, path string) iter.Seq2[fbc.Meta, error] {
	return openAndReadDatabase(ctx, progress, path, (*indexdb.Index).MetasWithRecords)
}

// openAndReadDatabase opens a SQLite catalog and yields what read returns. It closes the
// database at the end.
func openAndReadDatabase(ctx context.Context, progress report.Progress, path string, read func(*indexdb.Index, context.Context) iter.Seq2[fbc.Meta, error]) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		index, err := indexdb.Open(ctx, path, warningOptions(progress))
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer func() { _ = index.Close() }() // it was only read
		for meta, err := range read(index, ctx) {
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}

// IsImageAdded reports whether adding a bundle failed because the catalog already contains
// its image.
func IsImageAdded(err error) bool {
	var added *indexdb.ImageAddedError
	return errors.As(err, &added)
}

// IsVersionAdded reports whether adding a bundle failed because the catalog already
// contains a bundle of its name.
func IsVersionAdded(err error) bool {
	var added *indexdb.VersionAddedError
	return errors.As(err, &added)
}
