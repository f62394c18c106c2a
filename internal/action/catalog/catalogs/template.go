package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// RenderTemplate renders a catalog from a template.
type RenderTemplate struct {
	Registry Registry
	Progress report.Progress

	// Type is the type of the template. Empty means that it is detected from the template.
	Type template.Type
	// Input is the template.
	Input io.Reader
	// Migration is the last migration that is applied to bundles from images. Empty means
	// none.
	Migration bundle.Migration
	// Format is the output format. If Mermaid is set, the upgrade graph is written instead
	// of the catalog.
	Format  fbc.Format
	Mermaid bool
}

// Run reads the template and its bundle images and writes the catalog.
func (a *RenderTemplate) Run(ctx context.Context, w io.Writer) error {
	input, err := template.ReadInput(a.Input)
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}

	kind := a.Type
	if kind == "" {
		if kind, err = template.Detect(input); err != nil {
			return fmt.Errorf("auto-detecting template type: %w", err)
		}
	}

	renderer := &bundleRenderer{registry: a.Registry, progress: &sharedProgress{target: a.Progress}, lastMigration: a.Migration}
	metas, err := template.Render(ctx, kind, input, renderer)
	if err != nil {
		return fmt.Errorf("rendering template: %w", err)
	}

	if a.Mermaid {
		edges := packageGraphs{}
		for _, meta := range metas {
			if err := edges.addBlob(meta); err != nil {
				return err
			}
		}
		return edges.writeDrawings(w, upgradegraph.Mermaid{V0Semantics: true}, a.Progress)
	}

	return WriteMetas(ctx, metas, a.Format, a.Progress, w)
}

// WriteMetas writes blobs that are not from catalog files as a catalog.
func WriteMetas(ctx context.Context, metas []fbc.Meta, format fbc.Format, progress report.Progress, w io.Writer) error {
	index := fbc.NewIndex(fbc.Limits{})
	for _, meta := range metas {
		if err := index.AddBlob(meta); err != nil {
			return err
		}
	}
	return writeCatalogIndex(ctx, index, format, bundle.MigrateNone, progress, w)
}

// bundleRenderer renders bundle images for templates. It may be used concurrently.
type bundleRenderer struct {
	registry      Registry
	progress      *sharedProgress
	lastMigration bundle.Migration
}

// Render implements template.Renderer. It returns the bundle of an image.
func (r *bundleRenderer) Render(ctx context.Context, image string) ([]template.Bundle, error) {
	b, err := r.renderBundle(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("render reference %q: %w", image, err)
	}
	return []template.Bundle{b}, nil
}

func (r *bundleRenderer) renderBundle(ctx context.Context, image string) (template.Bundle, error) {
	progress, end := r.progress.addProgressLane()
	defer end()
	s, err := openReference(ctx, r.registry, progress, image, bundleImage)
	if err != nil {
		return template.Bundle{}, err
	}
	defer s.close()
	blob, err := readBundleBlob(s, image, nil, progress)
	if err != nil {
		return template.Bundle{}, err
	}

	csv, err := bundle.CSV(blob)
	if err != nil {
		return template.Bundle{}, err
	}
	if err := newBundleMigrator(r.lastMigration)(blob); err != nil {
		return template.Bundle{}, err
	}

	meta := fbc.Meta{Schema: fbc.SchemaBundle, Package: blob.Package, Name: blob.Name, Blob: blob.AppendJSON(nil)}
	return template.Bundle{Blob: meta, CSV: csv}, nil
}

// ConvertTemplate converts a catalog to a template.
type ConvertTemplate struct {
	// Type is the type of the template.
	Type template.Type
	// Input is the catalog, a stream of JSON or YAML.
	Input io.Reader
	// Format is the output format.
	Format fbc.Format
}

// Run reads the catalog and writes the template.
func (a *ConvertTemplate) Run(ctx context.Context, w io.Writer) error {
	input, err := template.ReadInput(a.Input)
	if err != nil {
		return fmt.Errorf("converting: %w", err)
	}

	converted, err := template.Convert(a.Type, input)
	if err := errors.Join(ctx.Err(), err); err != nil {
		return fmt.Errorf("converting: %w", err)
	}

	text := converted.JSON()
	if a.Format == fbc.FormatYAML {
		text = converted.YAML()
	}

	_, err = w.Write(text)
	return err
}

// WritePackage writes the olm.package blob of a package.
func WritePackage(ctx context.Context, p *fbc.Package, format fbc.Format, w io.Writer) error {
	return WriteMetas(ctx, []fbc.Meta{{Blob: p.AppendJSON(nil)}}, format, nil, w)
}
