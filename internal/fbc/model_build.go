package fbc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Builder makes the model of a catalog from the summaries of its blobs.
type Builder struct {
	groups map[string]*group
	blobs  int
	// deprecations counts the olm.deprecations blobs.
	deprecations int
	// misplaced are the names of bundles of packages that are not there. It is made when
	// it is first asked for.
	misplaced map[string]bool
}

// group is the blobs of one package, in the order in which they were added.
type group struct {
	packages, channels, bundles, deprecations []Summary
}

// maxBlobs bounds the memory of a model, of which a blob takes about a kilobyte. The
// largest public catalogs have 20,000.
const maxBlobs = 1_000_000

// Add takes a summary in. Those of the schemas that OLM does not define say nothing. Of
// two blobs that claim one place the first is taken, and the second is a fault: add them
// in the order of the catalog.
func (b *Builder) Add(s Summary) error {
	if b.blobs++; b.blobs > maxBlobs {
		return &Error{File: s.At.File, Err: fmt.Errorf("the catalog has more than %d blobs", maxBlobs)}
	}
	if b.groups == nil {
		b.groups = map[string]*group{}
	}

	for _, fault := range s.faults {
		fault.At = s.At
	}

	g := b.groups[s.pkg]
	if g == nil {
		g = &group{}
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

// Model returns the model of what was added. The error is a *TreeError with all that is
// wrong with it; the model then is what could be made out. The Builder is not to be used
// again.
func (b *Builder) Model() (*Model, error) {
	m := &Model{}
	root := &TreeError{Message: "invalid index"}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[name]
		if name == "" || len(g.packages) == 0 {
			root.add(g.homeless(name)...)
			continue
		}

		p := g.build(name, b.isMisplaced)
		m.Packages = append(m.Packages, p.ModelPackage)
		root.add(about("package", name, p.faults))
	}

	return m, root.whole()
}

// homeless says what is wrong with the blobs of a package that has no olm.package blob.
func (g *group) homeless(name string) []*TreeError {
	var faults []*TreeError
	for _, s := range g.packages {
		faults = append(faults, plain(s.At, "config contains package with no name"))
	}

	for _, s := range sorted(g.channels) {
		faults = append(faults, plain(s.At, "unknown package %q for channel %q", name, s.name))
		faults = append(faults, s.faults...)
	}

	for _, s := range sorted(g.bundles) {
		if name == "" {
			faults = append(faults, plain(s.At, "package name must be set for bundle %q", s.name))
		} else {
			faults = append(faults, plain(s.At, "unknown package %q for bundle %q", name, s.name))
		}
		faults = append(faults, s.faults...)
	}

	for _, s := range g.deprecations {
		if name == "" {
			faults = append(faults, plain(s.At, "package name must be set for deprecation item %d", s.number))
		} else {
			faults = append(faults, plain(s.At, "cannot apply deprecations to an unknown package %q", name))
		}
		faults = append(faults, s.faults...)
	}

	return faults
}

// isMisplaced reports whether a bundle of a name is in the catalog for a package that is
// not.
func (b *Builder) isMisplaced(bundle string) bool {
	if b.misplaced == nil {
		b.misplaced = map[string]bool{}
		for name, g := range b.groups {
			if name != "" && len(g.packages) > 0 {
				continue
			}
			for i := range g.bundles {
				b.misplaced[g.bundles[i].name] = true
			}
		}
	}

	return b.misplaced[bundle]
}

// sorted returns summaries by name, in the order in which they came where that is equal.
func sorted(summaries []Summary) []Summary {
	slices.SortStableFunc(summaries, func(a, b Summary) int { return strings.Compare(a.name, b.name) })
	return summaries
}

// packageBuild is a package of the model that is being made, and what is wrong with it.
type packageBuild struct {
	*ModelPackage
	group  *group
	faults []*TreeError

	// unread tells that nothing is known of the package but its name.
	unread bool
	// unsure tells that not all entries of the channels are known: a rule that asks
	// whether a channel or an entry is there does not ask.
	unsure bool
	// placed are the names in the entries of all channels.
	placed map[string]bool
	// bundles by name, nil for one of which nothing is known but the name.
	bundles map[string]*bundleSummary
	// tangled are channels whose edges are not known for sure.
	tangled map[*ModelChannel]bool
	// ranges are the skipRanges that are wrong.
	ranges map[string]error
	// silent are the deprecated things whose message is empty.
	silent map[DeprecationReference]Place
	// heads are the entries that no others of their channel replace or skip.
	heads map[*ModelChannel][]*ModelEntry
}

// build makes the model of a package, of which there is at least one blob.
func (g *group) build(name string, isMisplaced func(string) bool) *packageBuild {
	first := &g.packages[0]
	p := &packageBuild{
		ModelPackage: &ModelPackage{Name: name, DefaultChannel: first.defaultChannel, At: first.At},
		group:        g,
		unread:       first.unread,
		placed:       map[string]bool{},
		bundles:      map[string]*bundleSummary{},
		tangled:      map[*ModelChannel]bool{},
		ranges:       map[string]error{},
		silent:       map[DeprecationReference]Place{},
		heads:        map[*ModelChannel][]*ModelEntry{},
	}

	for i, s := range g.packages {
		p.fault(s.faults...)
		if i > 0 {
			p.plain(s.At, "duplicate package %q", name)
		}
	}

	if faults := labelFaults(name); len(faults) > 0 {
		p.plain(p.At, "invalid package name %q: %s", name, faults)
	}

	p.addChannels()
	p.addBundles()
	p.link(isMisplaced)
	p.deprecate()
	p.validate()

	return p
}

// fault notes faults. Those that are nil are none.
func (p *packageBuild) fault(faults ...*TreeError) {
	for _, fault := range faults {
		if fault != nil {
			p.faults = append(p.faults, fault)
		}
	}
}

func (p *packageBuild) plain(at Place, format string, args ...any) {
	p.fault(plain(at, format, args...))
}

// addChannels makes the channels.
func (p *packageBuild) addChannels() {
	for _, s := range sorted(p.group.channels) {
		p.fault(s.faults...)
		for _, entry := range s.entries {
			p.placed[entry.Name] = true
		}

		p.unsure = p.unsure || s.unread || s.name == ""
		maps.Copy(p.ranges, s.ranges)
		last := len(p.Channels) - 1
		switch {
		case s.name == "":
			p.plain(s.At, "package %q contains channel with no name", p.Name)
		case last >= 0 && p.Channels[last].Name == s.name:
			p.plain(s.At, "package %q has duplicate channel %q", p.Name, s.name)
		default:
			p.Channels = append(p.Channels, p.channel(s))
		}
	}

	if p.DefaultChannel != "" && p.Channel(p.DefaultChannel) == nil && !p.unsure {
		// As the field has it: the channel is there, and has nothing in it.
		p.Channels = append(p.Channels, &ModelChannel{Name: p.DefaultChannel, At: p.At})
		slices.SortFunc(p.Channels, func(a, b *ModelChannel) int { return strings.Compare(a.Name, b.Name) })
	}
}

// channel makes a channel without its links.
func (p *packageBuild) channel(s Summary) *ModelChannel {
	channel := &ModelChannel{Name: s.name, At: s.At}
	p.tangled[channel] = s.unread
	seen := make(map[string]bool, len(s.entries))
	channel.Entries = make([]ModelEntry, 0, len(s.entries))
	for _, entry := range s.entries {
		if seen[entry.Name] {
			p.plain(s.At, "invalid package %q, channel %q: duplicate entry %q", p.Name, s.name, entry.Name)
			p.tangled[channel] = true
			continue
		}
		seen[entry.Name] = true
		channel.Entries = append(channel.Entries, ModelEntry{ChannelEntry: entry})
	}

	return channel
}

// addBundles makes the bundles.
func (p *packageBuild) addBundles() {
	for _, s := range sorted(p.group.bundles) {
		_, seen := p.bundles[s.name]
		if seen {
			p.plain(s.At, "package %q has duplicate bundle %q", p.Name, s.name)
		}

		p.fault(s.faults...)
		if seen {
			continue
		}

		p.bundles[s.name] = nil
		if !s.unread {
			p.bundles[s.name] = s.bundle
			p.Bundles = append(p.Bundles, &s.bundle.ModelBundle)
		}
		if !p.placed[s.name] && !p.unsure {
			p.plain(s.At, "package %q, bundle %q not found in any channel entries", p.Name, s.name)
		}
	}

	slices.SortStableFunc(p.Bundles, func(a, b *ModelBundle) int { return a.VersionRelease().Compare(b.VersionRelease()) })
}

// link links the entries of the channels to the bundles.
func (p *packageBuild) link(isMisplaced func(string) bool) {
	missing := map[string]bool{}
	var at Place
	for _, channel := range p.Channels {
		for i := range channel.Entries {
			entry := &channel.Entries[i]
			b, known := p.bundles[entry.Name]
			switch {
			case b != nil:
				entry.Bundle = &b.ModelBundle
			case !known && !isMisplaced(entry.Name):
				missing[entry.Name] = true
				at = cmp.Or(at, channel.At)
			}
		}
		p.heads[channel] = channel.heads()
		if heads := p.heads[channel]; len(heads) == 1 {
			channel.Head = heads[0]
		}
	}

	if len(missing) > 0 {
		p.plain(at, "no olm.bundle blobs found in package %q for olm.channel entries %s", p.Name, slices.Sorted(maps.Keys(missing)))
	}
}

// deprecate notes what is deprecated.
func (p *packageBuild) deprecate() {
	for i, s := range p.group.deprecations {
		p.fault(s.faults...)
		if i > 0 {
			p.plain(s.At, "expected a maximum of one deprecation per package: %q", p.Name)
			continue
		}
		seen := map[DeprecationReference]bool{}
		for i, entry := range s.deprecations {
			if seen[entry.Reference] && entry.Reference.Schema != "" {
				p.plain(s.At, "duplicate deprecation entry %s for package %q", scoped(entry.Reference), p.Name)
				continue
			}
			seen[entry.Reference] = true
			p.deprecateOne(s.At, i, entry)
		}
	}
}

// scoped is how opm writes a reference in an error.
func scoped(r DeprecationReference) string {
	return fmt.Sprintf("declcfg.PackageScopedReference{Schema:%q, Name:%q}", r.Schema, r.Name)
}

func (p *packageBuild) deprecateOne(at Place, i int, entry DeprecationEntry) {
	name := entry.Reference.Name
	switch entry.Reference.Schema {
	case "":
		p.plain(at, "schema must be set for deprecation entry [%d] for package %q", i, p.Name)
		return
	case SchemaBundle:
		b, known := p.bundles[name]
		if !known {
			p.plain(at, "cannot deprecate bundle %q for package %q: bundle not found", name, p.Name)
			return
		}
		if b != nil {
			b.Deprecation = entry.Message
		}

	case SchemaChannel:
		channel := p.Channel(name)
		if channel == nil {
			if !p.unsure {
				p.plain(at, "cannot deprecate channel %q for package %q: channel not found", name, p.Name)
			}
			return
		}
		channel.Deprecation = entry.Message

	case SchemaPackage:
		if name != "" {
			p.plain(at, "package name must be empty for deprecated package %q (specified %q)", p.Name, name)
			return
		}
		p.Deprecation = entry.Message

	default:
		p.plain(at, "cannot deprecate object %s referenced by entry %d for package %q: object schema unknown", scoped(entry.Reference), i, p.Name)
		return
	}

	if entry.Message == "" {
		p.silent[entry.Reference] = at
	}
}
