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

// RenderGraph draws the upgrade edges of catalogs, valid or not.
type RenderGraph struct {
	Registry Registry
	Progress report.Progress

	// Refs are catalogs: folders, images, SQLite files.
	Refs []string
	// Package is the only one to be drawn. Empty means all.
	Package string
	// Mermaid says how it is drawn.
	Mermaid upgradegraph.Mermaid
}

// Run reads the catalogs and writes the drawing.
func (a *RenderGraph) Run(ctx context.Context, w io.Writer) error {
	edges := graphs{}
	for _, ref := range a.Refs {
		if err := a.read(ctx, ref, edges); err != nil {
			return fmt.Errorf("render reference %q: %w", ref, err)
		}
	}
	return edges.draw(w, a.Mermaid, a.Progress)
}

func (a *RenderGraph) read(ctx context.Context, ref string, edges graphs) error {
	s, err := openSource(ctx, a.Registry, a.Progress, ref, anyCatalog)
	if err != nil {
		return err
	}

	defer s.close()
	for meta, err := range s.metas(ctx, a.Progress) {
		if err != nil {
			return err
		}
		if a.Package != "" && meta.PackageName() != a.Package {
			continue
		}
		if err := edges.add(meta); err != nil {
			return err
		}
	}

	return nil
}

// graphs are packages, by name, while their blobs are gathered.
type graphs map[string]*graph

type graph struct {
	channels     []fbc.Channel
	versions     map[string]semver.Version
	deprecations *fbc.Deprecations
}

func (g graphs) of(pkg string) *graph {
	if g[pkg] == nil {
		g[pkg] = &graph{versions: map[string]semver.Version{}}
	}
	return g[pkg]
}

// add takes from a blob what a drawing shows of it.
func (g graphs) add(meta fbc.Meta) error {
	switch meta.Schema {
	case fbc.SchemaPackage:
		g.of(meta.Name)
	case fbc.SchemaChannel:
		channel, err := fbc.DecodeChannel(meta)
		if err != nil {
			return err
		}
		p := g.of(channel.Package)
		p.channels = append(p.channels, *channel)
	case fbc.SchemaBundle:
		bundle, err := fbc.DecodeBundle(meta)
		if err != nil {
			return err
		}
		version, err := versionOf(bundle)
		if err != nil {
			return err
		}
		g.of(bundle.Package).versions[bundle.Name] = version
	case fbc.SchemaDeprecations:
		deprecations, err := fbc.DecodeDeprecations(meta)
		if err != nil {
			return err
		}
		p := g.of(deprecations.Package)
		if p.deprecations == nil {
			p.deprecations = &fbc.Deprecations{}
		}
		p.deprecations.Entries = append(p.deprecations.Entries, deprecations.Entries...)
	}

	return nil
}

// versionOf returns the version of a bundle, 0.0.0 for one that has none.
func versionOf(b *fbc.Bundle) (semver.Version, error) {
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

// draw draws the packages, and warns of what cannot be drawn.
func (g graphs) draw(w io.Writer, how upgradegraph.Mermaid, progress report.Progress) error {
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
