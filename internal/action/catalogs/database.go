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

// Change is a change of a SQLite catalog.
type Change interface {
	apply(ctx context.Context, e *indexdb.Editor) error
}

// prepared is a change that has to get something before a database is touched.
type prepared interface {
	prepare(ctx context.Context) error
}

// AddBundles adds bundles.
type AddBundles struct {
	Registry Registry
	Progress report.Progress

	// Images are the bundles.
	Images []string
	// Mode is how they find their place in channels: replaces, semver or semver-skippatch.
	Mode string
	// OverwriteLatest replaces a bundle of the same name that nothing leads away from.
	OverwriteLatest bool
	// EnableAlpha takes bundles that substitute for others.
	EnableAlpha bool
	// Permissive adds what can be added, and warns of the rest.
	Permissive bool

	mode    indexdb.Mode
	bundles []indexdb.Bundle
}

func (a *AddBundles) prepare(ctx context.Context) error {
	var err error
	if a.mode, err = indexdb.ParseMode(a.Mode); err != nil {
		return err
	}

	a.bundles = nil
	for _, ref := range a.Images {
		b, err := a.load(ctx, ref)
		if err != nil {
			return err
		}
		a.bundles = append(a.bundles, b)
		report.OrQuiet(a.Progress).Done("bundle " + b.Name + " read from " + ref)
	}

	return nil
}

func (a *AddBundles) apply(ctx context.Context, e *indexdb.Editor) error {
	return e.Add(ctx, a.bundles, indexdb.AddOptions{
		Mode: a.mode, OverwriteLatest: a.OverwriteLatest, EnableAlpha: a.EnableAlpha, Permissive: a.Permissive,
	})
}

func (a *AddBundles) load(ctx context.Context, ref string) (indexdb.Bundle, error) {
	s, err := openSource(ctx, a.Registry, a.Progress, ref, bundleImage)
	if err != nil {
		return indexdb.Bundle{}, fmt.Errorf("bundle %q: %w", ref, err)
	}

	defer s.close()
	b, err := bundle.LoadImage(s.fsys, s.labels)
	if err != nil {
		return indexdb.Bundle{}, fmt.Errorf("bundle %q: %w", ref, err)
	}

	Warn(a.Progress, b)
	return indexdb.FromBundle(b, ref)
}

// RemovePackages removes whole packages.
type RemovePackages struct {
	Packages []string
	// Permissive removes those that are there, and warns of the rest.
	Permissive bool
}

func (a *RemovePackages) apply(ctx context.Context, e *indexdb.Editor) error {
	return e.RemovePackages(ctx, a.Packages, a.Permissive)
}

// PrunePackages removes all packages but some.
type PrunePackages struct {
	// Keep are those that stay.
	Keep       []string
	Permissive bool
}

func (a *PrunePackages) apply(ctx context.Context, e *indexdb.Editor) error {
	return e.PrunePackages(ctx, a.Keep, a.Permissive)
}

// PruneStranded removes bundles that no channel names.
type PruneStranded struct{}

func (*PruneStranded) apply(ctx context.Context, e *indexdb.Editor) error {
	return e.PruneStranded(ctx)
}

// DeprecateBundles deprecates bundles and removes those that they are updates of.
type DeprecateBundles struct {
	Images []string
	// AllowPackageRemoval allows to deprecate all heads of a package.
	AllowPackageRemoval bool
	Permissive          bool
}

func (a *DeprecateBundles) apply(ctx context.Context, e *indexdb.Editor) error {
	options := indexdb.DeprecateOptions{AllowPackageRemoval: a.AllowPackageRemoval, Permissive: a.Permissive}
	return e.DeprecateTruncate(ctx, a.Images, options)
}

// EditDatabase changes a SQLite catalog that is a file, as a whole or not at all.
type EditDatabase struct {
	Progress report.Progress

	// Path of the file.
	Path string
	// Create makes the file if there is none.
	Create bool
	Change Change
}

// Run makes the change.
func (a *EditDatabase) Run(ctx context.Context) error {
	if p, ok := a.Change.(prepared); ok {
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	options := indexdb.EditOptions{Options: databaseOptions(a.Progress), Create: a.Create}
	return indexdb.Edit(ctx, a.Path, options, func(e *indexdb.Editor) error { return a.Change.apply(ctx, e) })
}

// databaseOptions has a database's warnings told.
func databaseOptions(progress report.Progress) indexdb.Options {
	return indexdb.Options{Warn: func(message string, err error) {
		if err != nil {
			message += ": " + err.Error()
		}
		report.OrQuiet(progress).Warn(message)
	}}
}

// DatabaseNotice is told to whoever uses a SQLite catalog.
const DatabaseNotice = "DEPRECATION NOTICE: SQLite-based catalogs and their subcommands are deprecated. Support for them will be removed in a future release: migrate your catalogs to the file-based format with 'opm migrate'."

// ReadDatabase yields the blobs of a SQLite catalog.
func ReadDatabase(ctx context.Context, progress report.Progress, path string) iter.Seq2[fbc.Meta, error] {
	return readDatabase(ctx, progress, path, (*indexdb.Index).Metas)
}

// ReadServedDatabase yields the blobs of a SQLite catalog that is to be served.
func ReadServedDatabase(ctx context.Context, progress report.Progress, path string) iter.Seq2[fbc.Meta, error] {
	return readDatabase(ctx, progress, path, (*indexdb.Index).ServedMetas)
}

func readDatabase(ctx context.Context, progress report.Progress, path string, read func(*indexdb.Index, context.Context) iter.Seq2[fbc.Meta, error]) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		index, err := indexdb.Open(ctx, path, databaseOptions(progress))
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

// IsImageAdded tells that a bundle was to be added whose image is in the catalog already.
func IsImageAdded(err error) bool {
	var added *indexdb.ImageAddedError
	return errors.As(err, &added)
}

// IsVersionAdded tells that a bundle was to be added whose name is in the catalog already.
func IsVersionAdded(err error) bool {
	var added *indexdb.VersionAddedError
	return errors.As(err, &added)
}
