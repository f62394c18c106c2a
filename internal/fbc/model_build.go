package fbc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Builder builds the model of a catalog from the summaries of its blobs.
type Builder struct {
	groups map[string]*packageBlobs
	blobs  int
	// deprecations is the number of olm.deprecations blobs.
	deprecations int
	// orphanBundles are the names of bundles whose package has no olm.package blob. The set is
	// built on first use.
	orphanBundles map[string]bool
	findings      []Finding
}

// packageBlobs are the blobs of one package, in the order in which they were added.
type packageBlobs struct {
	packages, channels, bundles, deprecations []Summary
}

// maxModelBlobs bounds the memory of a model, which needs about a kilobyte for a blob. The
// largest public catalogs have 20,000.
const maxModelBlobs = 1_000_000

// Add adds a summary. Summaries of schemas that OLM does not define have no effect. Blobs must be
// added in the order of the catalog: of two blobs that claim the same name the first one counts,
// and the second one is a fault.
func (b *Builder) Add(s Summary) error {
	if b.blobs++; b.blobs > maxModelBlobs {
		return &Error{File: s.At.File, Err: fmt.Errorf("the catalog has more than %d blobs", maxModelBlobs)}
	}
	if b.groups == nil {
		b.groups = map[string]*packageBlobs{}
	}

	for _, fault := range s.faults {
		fault.At = s.At
	}

	for _, finding := range s.findings {
		if len(b.findings) < maxFindings {
			b.findings = append(b.findings, Finding{Message: finding.Message, At: s.At})
		}
	}

	g := b.groups[s.pkg]
	if g == nil {
		g = &packageBlobs{}
		b.groups[s.pkg] = g
	}

	switch s.schema {
	case SchemaPackage:
		g.packages = append(g.packages, s)
	case SchemaChannel:
		g.channels = append(g.channels, s)
	case SchemaBundle:
		s.bundle.At = s.At
		g.bundles = append(g.bundles, s)
	case SchemaDeprecations:
		s.number = b.deprecations
		b.deprecations++
		g.deprecations = append(g.deprecations, s)
	}

	return nil
}

// Model returns the model of the blobs that were added. If they are invalid, it returns a
// *TreeError with all faults, and the model has the valid parts. The Builder must not be used
// afterwards.
func (b *Builder) Model() (*Model, error) {
	m := &Model{}
	root := &TreeError{Message: "invalid index"}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[name]
		if name == "" || len(g.packages) == 0 {
			root.addCauses(g.findOrphanFaults(name)...)
			continue
		}

		p := g.buildModelPackage(name, b.lookUpOrphanBundle)
		m.Packages = append(m.Packages, p.ModelPackage)
		root.addCauses(newParentFault("package", name, p.faults))
	}

	m.setFindings(b.findings)
	return m, root.errorOrNil()
}

// findOrphanFaults returns the faults of the blobs of a package that has no olm.package blob.
func (g *packageBlobs) findOrphanFaults(name string) []*TreeError {
	var faults []*TreeError
	for _, s := range g.packages {
		faults = append(faults, newStandaloneFaultf(s.At, "config contains package with no name"))
	}

	for _, s := range sortSummariesByName(g.channels) {
		faults = append(faults, newStandaloneFaultf(s.At, "unknown package %q for channel %q", name, s.name))
		faults = append(faults, s.faults...)
	}

	for _, s := range sortSummariesByName(g.bundles) {
		if name == "" {
			faults = append(faults, newStandaloneFaultf(s.At, "package name must be set for bundle %q", s.name))
		} else {
			faults = append(faults, newStandaloneFaultf(s.At, "unknown package %q for bundle %q", name, s.name))
		}
		faults = append(faults, s.faults...)
	}

	for _, s := range g.deprecations {
		if name == "" {
			faults = append(faults, newStandaloneFaultf(s.At, "package name must be set for deprecation item %d", s.number))
		} else {
			faults = append(faults, newStandaloneFaultf(s.At, "cannot apply deprecations to an unknown package %q", name))
		}
		faults = append(faults, s.faults...)
	}

	return faults
}

// lookUpOrphanBundle reports whether the catalog has a bundle of this name in a package without
// an olm.package blob. The first call fills orphanBundles.
func (b *Builder) lookUpOrphanBundle(bundle string) bool {
	if b.orphanBundles == nil {
		b.orphanBundles = map[string]bool{}
		for name, g := range b.groups {
			if name != "" && len(g.packages) > 0 {
				continue
			}
			for i := range g.bundles {
				b.orphanBundles[g.bundles[i].name] = true
			}
		}
	}

	return b.orphanBundles[bundle]
}

// sortSummariesByName sorts summaries by name in place and returns them. The sort is stable.
func sortSummariesByName(summaries []Summary) []Summary {
	slices.SortStableFunc(summaries, func(a, b Summary) int { return strings.Compare(a.name, b.name) })
	return summaries
}

// packageBuilder builds a package of the model and collects its faults.
type packageBuilder struct {
	*ModelPackage
	blobs  *packageBlobs
	faults []*TreeError

	// undecoded is set if the olm.package blob does not fit its schema: only the name is known.
	undecoded bool
	// channelsIncomplete is set if some channels or entries are unknown. Rules about missing
	// channels or entries are then skipped.
	channelsIncomplete bool
	// entryNames are the names of the entries of all channels.
	entryNames map[string]bool
	// bundles are the bundles by name. The value is nil if only the name is known.
	bundles map[string]*bundleSummary
	// uncertainChannels are channels whose edges are not fully known.
	uncertainChannels map[*ModelChannel]bool
	// invalidRanges are the errors of invalid skipRanges.
	invalidRanges map[string]error
	// missingMessages are the deprecations without a message.
	missingMessages map[DeprecationReference]Place
	// heads are the entries that no other entry of their channel replaces or skips.
	heads map[*ModelChannel][]*ModelEntry
}

// buildModelPackage builds the model of a package that has at least one olm.package blob.
func (g *packageBlobs) buildModelPackage(name string, isOrphan func(string) bool) *packageBuilder {
	first := &g.packages[0]
	p := &packageBuilder{
		ModelPackage:      &ModelPackage{Name: name, DefaultChannel: first.defaultChannel, At: first.At},
		blobs:             g,
		undecoded:         first.undecoded,
		entryNames:        map[string]bool{},
		bundles:           map[string]*bundleSummary{},
		uncertainChannels: map[*ModelChannel]bool{},
		invalidRanges:     map[string]error{},
		missingMessages:   map[DeprecationReference]Place{},
		heads:             map[*ModelChannel][]*ModelEntry{},
	}

	for i, s := range g.packages {
		p.addFaults(s.faults...)
		if i > 0 {
			p.addFaultf(s.At, "duplicate package %q", name)
		}
	}

	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		p.addFaultf(p.At, "invalid package name %q: %s", name, faults)
	}

	p.buildChannels()
	p.buildBundles()
	p.linkEntriesToBundles(isOrphan)
	p.applyDeprecations()
	p.validatePackage()

	return p
}

// addFaults adds faults and ignores nil.
func (p *packageBuilder) addFaults(faults ...*TreeError) {
	for _, fault := range faults {
		if fault != nil {
			p.faults = append(p.faults, fault)
		}
	}
}

func (p *packageBuilder) addFaultf(at Place, format string, args ...any) {
	p.addFaults(newStandaloneFaultf(at, format, args...))
}

func (p *packageBuilder) buildChannels() {
	for _, s := range sortSummariesByName(p.blobs.channels) {
		p.addFaults(s.faults...)
		for _, entry := range s.entries {
			p.entryNames[entry.Name] = true
		}

		p.channelsIncomplete = p.channelsIncomplete || s.undecoded || s.name == ""
		maps.Copy(p.invalidRanges, s.invalidRanges)
		last := len(p.Channels) - 1
		switch {
		case s.name == "":
			p.addFaultf(s.At, "package %q contains channel with no name", p.Name)
		case last >= 0 && p.Channels[last].Name == s.name:
			p.addFaultf(s.At, "package %q has duplicate channel %q", p.Name, s.name)
		default:
			p.Channels = append(p.Channels, p.buildChannel(s))
		}
	}

	if p.DefaultChannel != "" && p.Channel(p.DefaultChannel) == nil && !p.channelsIncomplete {
		// As in opm, the missing default channel exists in the model and is empty.
		p.Channels = append(p.Channels, &ModelChannel{Name: p.DefaultChannel, At: p.At})
		slices.SortFunc(p.Channels, func(a, b *ModelChannel) int { return strings.Compare(a.Name, b.Name) })
	}
}

// buildChannel builds a channel whose entries are not linked to bundles yet.
func (p *packageBuilder) buildChannel(s Summary) *ModelChannel {
	channel := &ModelChannel{Name: s.name, At: s.At}
	p.uncertainChannels[channel] = s.undecoded
	seen := make(map[string]bool, len(s.entries))
	channel.Entries = make([]ModelEntry, 0, len(s.entries))
	for _, entry := range s.entries {
		if seen[entry.Name] {
			p.addFaultf(s.At, "invalid package %q, channel %q: duplicate entry %q", p.Name, s.name, entry.Name)
			p.uncertainChannels[channel] = true
			continue
		}
		seen[entry.Name] = true
		channel.Entries = append(channel.Entries, ModelEntry{ChannelEntry: entry})
	}

	return channel
}

func (p *packageBuilder) buildBundles() {
	for _, s := range sortSummariesByName(p.blobs.bundles) {
		_, seen := p.bundles[s.name]
		if seen {
			p.addFaultf(s.At, "package %q has duplicate bundle %q", p.Name, s.name)
		}

		p.addFaults(s.faults...)
		if seen {
			continue
		}

		p.bundles[s.name] = nil
		if !s.undecoded {
			p.bundles[s.name] = s.bundle
			p.Bundles = append(p.Bundles, &s.bundle.ModelBundle)
		}
		if !p.entryNames[s.name] && !p.channelsIncomplete {
			p.addFaultf(s.At, "package %q, bundle %q not found in any channel entries", p.Name, s.name)
		}
	}

	slices.SortStableFunc(p.Bundles, func(a, b *ModelBundle) int { return a.VersionRelease().Compare(b.VersionRelease()) })
}

// linkEntriesToBundles links the entries of the channels to their bundles and sets the channel
// heads.
func (p *packageBuilder) linkEntriesToBundles(isOrphan func(string) bool) {
	missing := map[string]bool{}
	var at Place
	for _, channel := range p.Channels {
		for i := range channel.Entries {
			entry := &channel.Entries[i]
			b, known := p.bundles[entry.Name]
			switch {
			case b != nil:
				entry.Bundle = &b.ModelBundle
			case !known && !isOrphan(entry.Name):
				missing[entry.Name] = true
				at = cmp.Or(at, channel.At)
			}
		}
		p.heads[channel] = channel.findHeadEntries()
		if heads := p.heads[channel]; len(heads) == 1 {
			channel.Head = heads[0]
		}
	}

	if len(missing) > 0 {
		p.addFaultf(at, "no olm.bundle blobs found in package %q for olm.channel entries %s", p.Name, slices.Sorted(maps.Keys(missing)))
	}
}

// applyDeprecations sets the deprecation messages of packages, channels and bundles.
func (p *packageBuilder) applyDeprecations() {
	for i, s := range p.blobs.deprecations {
		p.addFaults(s.faults...)
		if i > 0 {
			p.addFaultf(s.At, "expected a maximum of one deprecation per package: %q", p.Name)
			continue
		}
		seen := map[DeprecationReference]bool{}
		for i, entry := range s.deprecations {
			if seen[entry.Reference] && entry.Reference.Schema != "" {
				p.addFaultf(s.At, "duplicate deprecation entry %s for package %q", formatReference(entry.Reference), p.Name)
				continue
			}
			seen[entry.Reference] = true
			p.applyDeprecation(s.At, i, entry)
		}
	}
}

// formatReference formats a reference as opm prints it in errors.
func formatReference(r DeprecationReference) string {
	return fmt.Sprintf("declcfg.PackageScopedReference{Schema:%q, Name:%q}", r.Schema, r.Name)
}

func (p *packageBuilder) applyDeprecation(at Place, i int, entry DeprecationEntry) {
	name := entry.Reference.Name
	switch entry.Reference.Schema {
	case "":
		p.addFaultf(at, "schema must be set for deprecation entry [%d] for package %q", i, p.Name)
		return
	case SchemaBundle:
		b, known := p.bundles[name]
		if !known {
			p.addFaultf(at, "cannot deprecate bundle %q for package %q: bundle not found", name, p.Name)
			return
		}
		if b != nil {
			b.Deprecation = entry.Message
		}

	case SchemaChannel:
		channel := p.Channel(name)
		if channel == nil {
			if !p.channelsIncomplete {
				p.addFaultf(at, "cannot deprecate channel %q for package %q: channel not found", name, p.Name)
			}
			return
		}
		channel.Deprecation = entry.Message

	case SchemaPackage:
		if name != "" {
			p.addFaultf(at, "package name must be empty for deprecated package %q (specified %q)", p.Name, name)
			return
		}
		p.Deprecation = entry.Message

	default:
		p.addFaultf(at, "cannot deprecate object %s referenced by entry %d for package %q: object schema unknown", formatReference(entry.Reference), i, p.Name)
		return
	}

	if entry.Message == "" {
		p.missingMessages[entry.Reference] = at
	}
}
