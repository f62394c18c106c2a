package content

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// summaryRunBytes is how many bytes of summaries are written to the file in one piece. Listing
// all bundles then reads few parts of the disk.
const summaryRunBytes = 1 << 20

// contentBuilder adds the blobs of a catalog: it writes blobs and summaries to the content file
// and collects what goes into the index.
type contentBuilder struct {
	out *contentWriter
	// modelBuilders build the model of each package, by package name.
	modelBuilders map[string]*fbc.Builder
	// packageBlobs are the olm.package blobs by package name.
	packageBlobs map[string]span
	bundles      map[bundleKey]*bundle
	customBlobs  []customBlob
	// summaries are buffered until they reach summaryRunBytes; pending are their bundles.
	summaries []byte
	pending   []*bundle
}

type bundleKey struct{ pkg, name string }

// buildContent writes the content file of a source and returns its content. sum is the checksum
// of the source. The writer cannot be used afterwards.
func buildContent(ctx context.Context, out *contentWriter, source Source, sum uint64) (*Content, error) {
	stored, _ := source.(Stored)
	out.omitsBlobs = stored.Read != nil
	b := &contentBuilder{out: out, modelBuilders: map[string]*fbc.Builder{}, packageBlobs: map[string]span{}, bundles: map[bundleKey]*bundle{}}
	err := b.addSourceBlobs(ctx, source)
	var ix *index
	if err == nil {
		ix, err = b.buildContentIndex(source.skipsValidation())
	}
	if err == nil {
		err = out.commitFile(ix, sum)
	}
	if err != nil {
		out.abandonFile()
		return nil, err
	}

	return &Content{index: ix, file: out.file, readStored: stored.Read, closeStored: stored.Close}, nil
}

// addSourceBlobs adds every blob of a source.
func (b *contentBuilder) addSourceBlobs(ctx context.Context, source Source) error {
	for d, err := range source.digestBlobs(digestBlob) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := b.addBlob(d); err != nil {
			return err
		}
	}

	return nil
}

// addBlob adds one blob. Of two packages or bundles with the same name it keeps the first; the
// model reports the duplicate.
func (b *contentBuilder) addBlob(d digestedBlob) error {
	pkg := d.meta.PackageName()
	switch d.meta.Schema {
	case fbc.SchemaPackage:
		if _, twice := b.packageBlobs[pkg]; !twice {
			blob, err := b.out.appendBlob(d)
			if err != nil {
				return err
			}
			b.packageBlobs[pkg] = blob
		}
	case fbc.SchemaBundle:
		if err := b.addBundleBlob(bundleKey{pkg, d.meta.Name}, d); err != nil {
			return err
		}
	case fbc.SchemaChannel, fbc.SchemaDeprecations:
	default:
		blob, err := b.out.appendBlob(d)
		b.customBlobs = append(b.customBlobs, customBlob{schema: d.meta.Schema, pkg: pkg, blob: blob})
		return err
	}

	model := b.modelBuilders[pkg]
	if model == nil {
		// Each package has its own model, because every error is about one package.
		model = &fbc.Builder{}
		b.modelBuilders[pkg] = model
	}

	return model.Add(d.facts)
}

// addBundleBlob writes the blob of a bundle to the file and buffers its summary. It ignores
// duplicates and bundles that could not be decoded.
func (b *contentBuilder) addBundleBlob(key bundleKey, d digestedBlob) error {
	if b.bundles[key] != nil || len(d.summary) == 0 {
		return nil
	}

	blob, err := b.out.appendBlob(d)
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
	if len(b.summaries) >= summaryRunBytes {
		return b.flushSummaries()
	}

	return nil
}

// flushSummaries writes the buffered summaries as one piece.
func (b *contentBuilder) flushSummaries() error {
	run, err := b.out.appendData(b.summaries)
	for _, built := range b.pending {
		built.summary.offset += run.offset
	}
	b.summaries, b.pending = b.summaries[:0], b.pending[:0]
	return err
}

// wrapPackageError adds the package that was processed to an error.
func wrapPackageError(pkg string, err error) error {
	return fmt.Errorf("build package index: process package %q: %w", pkg, err)
}

// buildContentIndex returns the index of everything that was added. With unchecked set,
// packages that break the rules of file-based catalogs are not an error.
func (b *contentBuilder) buildContentIndex(unchecked bool) (*index, error) {
	if err := b.flushSummaries(); err != nil {
		return nil, err
	}

	ix := &index{customBlobs: b.customBlobs}
	slices.SortStableFunc(ix.customBlobs, customBlob.compare)
	providers := map[fbc.GVK][]uint32{}
	for _, name := range slices.Sorted(maps.Keys(b.modelBuilders)) {
		model, err := b.modelBuilders[name].Model()
		if err != nil && !unchecked {
			return nil, wrapPackageError(name, err)
		}
		if p := model.Package(name); p != nil {
			ix.packages = append(ix.packages, b.buildPackageIndex(p, ix, providers))
		}
	}

	for gvk, bundles := range providers {
		ix.providedAPIs = append(ix.providedAPIs, apiProviders{gvk: gvk, bundles: bundles})
	}

	slices.SortFunc(ix.providedAPIs, func(a, b apiProviders) int { return compareGVKs(a.gvk, b.gvk) })
	return ix, nil
}

// buildPackageIndex returns the index entry of a package. It adds the package's bundles to the index
// and the APIs that they provide to providers.
func (b *contentBuilder) buildPackageIndex(p *fbc.ModelPackage, ix *index, providers map[fbc.GVK][]uint32) Package {
	nextBundle := func() uint32 { return uint32(len(ix.bundles)) } //nolint:gosec // The limit of the index's size is far below.
	indexed := Package{Name: p.Name, DefaultChannel: p.DefaultChannel, Deprecation: p.Deprecation, blob: b.packageBlobs[p.Name], firstBundle: nextBundle()}
	slices.SortFunc(p.Bundles, func(a, b *fbc.ModelBundle) int { return strings.Compare(a.Name, b.Name) })
	numbers := make(map[string]uint32, len(p.Bundles))
	for _, bundle := range p.Bundles {
		built := b.bundles[bundleKey{p.Name, bundle.Name}]
		if built == nil {
			continue
		}

		built.hasImage, built.deprecation = bundle.Image != "", bundle.Deprecation
		number := nextBundle()
		numbers[bundle.Name] = number
		ix.bundles = append(ix.bundles, *built)
		for _, provided := range bundle.Provides {
			if list := providers[provided]; len(list) == 0 || list[len(list)-1] != number {
				providers[provided] = append(list, number)
			}
		}
	}

	indexed.endBundle = nextBundle()
	for _, channel := range p.Channels {
		indexed.Channels = append(indexed.Channels, buildChannelIndex(channel, numbers))
	}

	return indexed
}

// buildChannelIndex returns the index entry of a channel. Entries without a bundle are left out.
func buildChannelIndex(channel *fbc.ModelChannel, bundles map[string]uint32) Channel {
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
