package catalogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// RenderGraph draws the upgrade graphs of catalogs. The catalogs need not be valid.
type RenderGraph struct {
	Registry Registry
	Progress report.Progress

	// Refs are catalogs: folders, images or SQLite files.
	Refs []string
	// Package limits the drawing to one package. Empty means all.
	Package string
	// Mermaid are the options of the drawing.
	Mermaid upgradegraph.Mermaid
}

// Run reads the catalogs and writes the drawing.
func (a *RenderGraph) Run(ctx context.Context, w io.Writer) error {
	edges := packageGraphs{}
	for _, ref := range a.Refs {
		if err := a.addCatalogEdges(ctx, ref, edges); err != nil {
			return fmt.Errorf("render reference %q: %w", ref, err)
		}
	}
	return edges.writeDrawings(w, a.Mermaid, a.Progress)
}

func (a *RenderGraph) addCatalogEdges(ctx context.Context, ref string, edges packageGraphs) error {
	s, err := openReference(ctx, a.Registry, a.Progress, ref, anyCatalog)
	if err != nil {
		return err
	}
	defer s.close()
	for meta, err := range s.readCatalogBlobs(ctx, a.Progress) {
		if err != nil {
			return err
		}
		if a.Package != "" && meta.PackageName() != a.Package {
			continue
		}
		if err := edges.addBlob(meta); err != nil {
			return err
		}
	}

	return nil
}

// packageGraphs collects the blobs of packages by package name.
type packageGraphs map[string]*packageGraph

// packageGraph holds the blobs of a package that a drawing needs.
type packageGraph struct {
	channels     []fbc.Channel
	versions     map[string]semver.Version
	deprecations *fbc.Deprecations
}

// getOrCreate returns the graph of a package. It adds an empty one if there is none.
func (g packageGraphs) getOrCreate(pkg string) *packageGraph {
	if g[pkg] == nil {
		g[pkg] = &packageGraph{versions: map[string]semver.Version{}}
	}
	return g[pkg]
}

// addBlob adds the parts of a blob that a drawing shows.
func (g packageGraphs) addBlob(meta fbc.Meta) error {
	switch meta.Schema {
	case fbc.SchemaPackage:
		g.getOrCreate(meta.Name)
	case fbc.SchemaChannel:
		channel, err := fbc.DecodeChannel(meta)
		if err != nil {
			return err
		}
		p := g.getOrCreate(channel.Package)
		p.channels = append(p.channels, *channel)
	case fbc.SchemaBundle:
		bundle, err := fbc.DecodeBundle(meta)
		if err != nil {
			return err
		}
		version, err := bundleVersion(bundle)
		if err != nil {
			return err
		}
		g.getOrCreate(bundle.Package).versions[bundle.Name] = version
	case fbc.SchemaDeprecations:
		deprecations, err := fbc.DecodeDeprecations(meta)
		if err != nil {
			return err
		}
		p := g.getOrCreate(deprecations.Package)
		if p.deprecations == nil {
			p.deprecations = &fbc.Deprecations{}
		}
		p.deprecations.Entries = append(p.deprecations.Entries, deprecations.Entries...)
	}

	return nil
}

// bundleVersion returns the version of a bundle, or 0.0.0 if it has none.
func bundleVersion(b *fbc.Bundle) (semver.Version, error) {
	for _, property := range b.Properties {
		if property.Type != fbc.PropertyPackage {
			continue
		}

		var value fbc.PackageProperty
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return semver.Version{}, fmt.Errorf("bundle %q: property of type %q: %w", b.Name, property.Type, err)
		}

		version, err := semver.Parse(value.Version)
		if err != nil {
			return semver.Version{}, fmt.Errorf("bundle %q has invalid version %q: %w", b.Name, value.Version, err)
		}

		return version, nil
	}

	return semver.Version{}, nil
}

// writeDrawings draws the packages. It warns about invalid skip ranges and ignores them.
func (g packageGraphs) writeDrawings(w io.Writer, how upgradegraph.Mermaid, progress report.Progress) error {
	var drawings []upgradegraph.Drawing
	for _, name := range slices.Sorted(maps.Keys(g)) {
		p := g[name]
		drawing := upgradegraph.Drawing{Deprecations: p.deprecations}
		drawing.Graph = upgradegraph.New(name, p.channels, func(bundle string) (semver.Version, bool) {
			version, ok := p.versions[bundle]
			return version, ok
		})
		for _, problem := range drawing.Graph.Problems() {
			var bad *upgradegraph.SkipRangeError
			if errors.As(problem, &bad) {
				report.OrQuiet(progress).Warn(fmt.Sprintf("ignoring invalid SkipRange for package/edge %q/%q: %v", bad.Package, bad.Entry, bad.Err))
			}
		}

		drawings = append(drawings, drawing)
	}

	return how.Write(w, drawings...)
}
