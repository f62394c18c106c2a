package content

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// summaryRun is how many bytes of summaries stand together in a file, so that a list of
// all bundles reads few parts of the disk.
const summaryRun = 1 << 20

// builder takes in the blobs of a catalog: it writes to a file what answers are made of,
// and keeps what goes into the index.
type builder struct {
	out *writer
	// models of the packages, by name.
	models map[string]*fbc.Builder
	// packages are the olm.package blobs by name.
	packages map[string]span
	bundles  map[bundleKey]*bundle
	customs  []custom
	// summaries wait until they make up a run; pending are the bundles they are of.
	summaries []byte
	pending   []*bundle
}

type bundleKey struct{ pkg, name string }

// build writes the content file of a source and gives its content. sum is the sum of the
// source. The writer is used up.
func build(ctx context.Context, out *writer, source Source, sum uint64) (*Content, error) {
	b := &builder{out: out, models: map[string]*fbc.Builder{}, packages: map[string]span{}, bundles: map[bundleKey]*bundle{}}
	err := b.addAll(ctx, source)
	var ix *index
	if err == nil {
		ix, err = b.finish(source.unchecked())
	}
	if err == nil {
		err = out.finish(ix, sum)
	}
	if err != nil {
		out.abandon()
		return nil, err
	}

	return &Content{index: ix, file: out.file}, nil
}

func (b *builder) addAll(ctx context.Context, source Source) error {
	for d, err := range source.digest(digest) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := b.add(d); err != nil {
			return err
		}
	}

	return nil
}

// add takes in one blob. Of two of one name the first counts; it is up to the model to
// refuse them.
func (b *builder) add(d digested) error {
	pkg := d.meta.PackageName()
	switch d.meta.Schema {
	case fbc.SchemaPackage:
		if _, twice := b.packages[pkg]; !twice {
			blob, err := b.out.write(d.meta.Blob)
			if err != nil {
				return err
			}
			b.packages[pkg] = blob
		}
	case fbc.SchemaBundle:
		if err := b.addBundle(bundleKey{pkg, d.meta.Name}, d); err != nil {
			return err
		}
	case fbc.SchemaChannel, fbc.SchemaDeprecations:
	default:
		blob, err := b.out.write(d.meta.Blob)
		b.customs = append(b.customs, custom{schema: d.meta.Schema, pkg: pkg, blob: blob})
		return err
	}

	model := b.models[pkg]
	if model == nil {
		// Each package is a model of its own, as every error is about one package.
		model = &fbc.Builder{}
		b.models[pkg] = model
	}

	return model.Add(d.facts)
}

func (b *builder) addBundle(key bundleKey, d digested) error {
	if b.bundles[key] != nil || len(d.summary) == 0 {
		return nil
	}

	blob, err := b.out.write(d.meta.Blob)
	if err != nil {
		return err
	}

	built := &bundle{blob: blob, summary: span{
		offset: uint64(len(b.summaries)),
		length: uint32(len(d.summary)), //nolint:gosec // Blobs are bounded, and a summary is part of one.
	}}
	b.bundles[key] = built
	b.summaries = append(b.summaries, d.summary...)
	b.pending = append(b.pending, built)
	if len(b.summaries) >= summaryRun {
		return b.flush()
	}

	return nil
}

// flush writes the summaries that wait.
func (b *builder) flush() error {
	run, err := b.out.write(b.summaries)
	for _, built := range b.pending {
		built.summary.offset += run.offset
	}
	b.summaries, b.pending = b.summaries[:0], b.pending[:0]
	return err
}

// inPackage says of an error which package was being processed.
func inPackage(pkg string, err error) error {
	return fmt.Errorf("build package index: process package %q: %w", pkg, err)
}

// finish makes the index of all that was added. An unchecked catalog may break the rules.
func (b *builder) finish(unchecked bool) (*index, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}

	ix := &index{customs: b.customs}
	slices.SortStableFunc(ix.customs, custom.compare)
	providers := map[fbc.GVK][]uint32{}
	for _, name := range slices.Sorted(maps.Keys(b.models)) {
		model, err := b.models[name].Model()
		if err != nil && !unchecked {
			return nil, inPackage(name, err)
		}
		if p := model.Package(name); p != nil {
			ix.packages = append(ix.packages, b.indexPackage(p, ix, providers))
		}
	}

	for gvk, bundles := range providers {
		ix.apis = append(ix.apis, api{gvk: gvk, bundles: bundles})
	}

	slices.SortFunc(ix.apis, func(a, b api) int { return compareGVKs(a.gvk, b.gvk) })
	return ix, nil
}

// indexPackage makes the index of a package, and adds its bundles and what they provide.
func (b *builder) indexPackage(p *fbc.ModelPackage, ix *index, providers map[fbc.GVK][]uint32) Package {
	number := func() uint32 { return uint32(len(ix.bundles)) } //nolint:gosec // The limit of the index's size is far below.
	indexed := Package{Name: p.Name, DefaultChannel: p.DefaultChannel, Deprecation: p.Deprecation, blob: b.packages[p.Name], first: number()}
	slices.SortFunc(p.Bundles, func(a, b *fbc.ModelBundle) int { return strings.Compare(a.Name, b.Name) })
	numbers := make(map[string]uint32, len(p.Bundles))
	for _, bundle := range p.Bundles {
		built := b.bundles[bundleKey{p.Name, bundle.Name}]
		if built == nil {
			continue
		}

		built.image, built.deprecation = bundle.Image != "", bundle.Deprecation
		n := number()
		numbers[bundle.Name] = n
		ix.bundles = append(ix.bundles, *built)
		for _, provided := range bundle.Provides {
			if list := providers[provided]; len(list) == 0 || list[len(list)-1] != n {
				providers[provided] = append(list, n)
			}
		}
	}

	indexed.end = number()
	for _, channel := range p.Channels {
		indexed.Channels = append(indexed.Channels, indexChannel(channel, numbers))
	}

	return indexed
}

// indexChannel makes the index of a channel: of its entries that have a bundle.
func indexChannel(channel *fbc.ModelChannel, bundles map[string]uint32) Channel {
	c := Channel{Name: channel.Name, Deprecation: channel.Deprecation, head: -1}
	for _, entry := range channel.Entries {
		if number, ok := bundles[entry.Name]; ok {
			c.Entries = append(c.Entries, Entry{
				Name: entry.Name, Replaces: entry.Replaces, Skips: entry.Skips, SkipRange: entry.SkipRange, bundle: number,
			})
		}
	}

	slices.SortFunc(c.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	if channel.Head != nil {
		c.head = slices.IndexFunc(c.Entries, func(e Entry) bool { return e.Name == channel.Head.Name })
	}

	return c
}
