package resolution

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// maxCachedDependencies limits the dependencies that a snapshot caches.
const maxCachedDependencies = 4096

// Bundle is one version of an operator.
type Bundle struct {
	// Name is the name of its CSV.
	Name    string
	Package string
	// Version is the version of the bundle, or "".
	Version string
	// Image is the image with its manifests, or "" if the catalog holds the manifests.
	Image string
	// Properties are the properties of the bundle in its catalog.
	Properties []fbc.Property
	// Deprecation is the deprecation message, or "".
	Deprecation string

	provider *requirement.Provider
}

// Entry is a bundle's entry in a channel. Entries of installed operators have no channel.
type Entry struct {
	*Bundle
	Channel string
	// Replaces is the name of the bundle that this one updates.
	Replaces string
	// Skips are the names of further bundles that this one updates.
	Skips []string
	// SkipRange is a range of versions that this bundle updates.
	SkipRange string

	snapshot *Snapshot
	// first is the first entry of the same bundle. A bundle can be in several channels.
	first *Entry
	// isDefault reports whether the channel is the package's default channel.
	isDefault bool
}

// Catalog returns the name of the entry's catalog.
func (e *Entry) Catalog() types.NamespacedName { return e.snapshot.Catalog }

// displayID returns the name of the entry for messages.
func (e *Entry) displayID() string {
	return e.snapshot.Catalog.Name + "/" + e.snapshot.Catalog.Namespace + "/" + e.Channel + "/" + e.Name
}

// isUpdateOf reports whether the entry is an update of an installed entry.
func (e *Entry) isUpdateOf(installed *Entry) bool {
	switch {
	case e.Name == installed.Name:
		return false
	case e.Replaces == installed.Name || slices.Contains(e.Skips, installed.Name):
		return true
	case e.SkipRange == "":
		return false
	}

	version, ok := installed.parseVersion()
	includes, err := versionrange.Parse(e.SkipRange)
	return ok && err == nil && includes(version)
}

// Package has the data of a package that is not part of its bundles.
type Package struct {
	DefaultChannel string
	// Deprecation is the deprecation message, or "".
	Deprecation string
	// DeprecatedChannels are the deprecation messages by channel.
	DeprecatedChannels map[string]string
}

// Snapshot is the content of a catalog at one time. It is safe for concurrent use.
type Snapshot struct {
	Catalog  types.NamespacedName
	Packages map[string]Package

	// packages are the entries of each package. Channels are sorted by preference and contain
	// only installable entries, newest first.
	packages     map[string]*packageEntries
	packageNames []string // of the packages, sorted
	byGVK        map[schema.GroupVersionKind][]*Entry
	size         int

	mu                    sync.Mutex
	providersByDependency map[string][]*Entry
	parsedDependencies    map[propertyKey]parsedDependency
}

type packageEntries struct {
	channels []*channel
	// all are the entries of all channels in any order, including those that are not
	// installable.
	all []*Entry
}

type propertyKey struct{ kind, value string }

type parsedDependency struct {
	dependency *dependency
	err        error
}

// NewSnapshot returns a snapshot of a catalog. The snapshot takes ownership of the entries.
func NewSnapshot(catalog types.NamespacedName, packages map[string]Package, entries []*Entry) *Snapshot {
	return newSnapshot(catalog, packages, entries, buildChannels)
}

func newSnapshot(catalog types.NamespacedName, packages map[string]Package, entries []*Entry, order func(string, []*Entry) []*channel) *Snapshot {
	s := &Snapshot{
		Catalog: catalog, Packages: packages, packages: map[string]*packageEntries{}, byGVK: map[schema.GroupVersionKind][]*Entry{},
		size: len(entries), providersByDependency: map[string][]*Entry{}, parsedDependencies: map[propertyKey]parsedDependency{},
	}
	firsts := map[[2]string]*Entry{} // by package and name
	for _, e := range entries {
		e.snapshot = s
		e.parsePackageProperty()
		key := [2]string{e.Package, e.Name}
		if firsts[key] == nil {
			firsts[key] = e
		}
		e.first = firsts[key]

		p := s.packages[e.Package]
		if p == nil {
			p = &packageEntries{}
			s.packages[e.Package] = p
			s.packageNames = append(s.packageNames, e.Package)
		}

		p.all = append(p.all, e)
		e.isDefault = e.Channel != "" && e.Channel == packages[e.Package].DefaultChannel
	}

	slices.Sort(s.packageNames)
	for _, name := range s.packageNames {
		p := s.packages[name]
		p.channels = order(name, p.all)
		for _, c := range p.channels {
			for _, e := range c.entries {
				for _, gvk := range e.provider.APIs() {
					s.byGVK[gvk] = append(s.byGVK[gvk], e)
				}
			}
		}
	}

	for _, offers := range s.byGVK {
		slices.SortStableFunc(offers, compareByChannel)
	}

	return s
}

// Len returns the number of entries.
func (s *Snapshot) Len() int { return s.size }

// Find returns the entry of a bundle in a channel, or in any channel if channel is empty. It
// returns nil if there is none.
func (s *Snapshot) Find(pkg, channel, name string) *Entry {
	p := s.packages[pkg]
	if p == nil {
		return nil
	}

	for _, e := range p.all {
		if e.Name == name && (channel == "" || e.Channel == channel) {
			return e
		}
	}
	return nil
}

// hasBundle reports whether any package has a bundle of a name.
func (s *Snapshot) hasBundle(name string) bool {
	for _, p := range s.packages {
		if slices.ContainsFunc(p.all, func(e *Entry) bool { return e.Name == name }) {
			return true
		}
	}
	return false
}

// UpdatePath is how a channel updates an installed bundle.
type UpdatePath struct {
	// IsPossible is set if the channel has the bundle or an update of it.
	IsPossible bool
	// Head is the newest bundle of the channel, or "".
	Head string
	// Channels are the channels of the package that have the bundle.
	Channels []string
}

// FindUpdatePath returns how a channel, or any channel if channel is empty, updates an installed bundle. It returns false
// if the catalog does not have the channel.
func (s *Snapshot) FindUpdatePath(pkg, channel, name, version string) (path UpdatePath, ok bool) {
	p := s.packages[pkg]
	if p == nil {
		return path, false
	}

	installed := &Entry{Bundle: &Bundle{Name: name, Version: version}}
	for _, c := range p.channels {
		isMember := slices.ContainsFunc(p.all, func(e *Entry) bool { return e.Channel == c.name && e.Name == name })
		if isMember {
			path.Channels = append(path.Channels, c.name)
		}
		if channel != "" && c.name != channel {
			continue
		}

		ok = true
		path.IsPossible = path.IsPossible || isMember || c.orderErr != nil ||
			slices.ContainsFunc(c.entries, func(e *Entry) bool { return e.isUpdateOf(installed) })
		if path.Head == "" && len(c.entries) > 0 {
			path.Head = c.entries[0].Name
		}
	}

	return path, ok
}

// parsePackageProperty sets package and version from the olm.package property, and the provider
// that dependencies are checked against. A bundle without the property gets one.
func (b *Bundle) parsePackageProperty() {
	if b.provider != nil {
		return
	}

	has := false
	for _, p := range b.Properties {
		var value fbc.PackageProperty
		if p.Type != fbc.PropertyPackage || json.Unmarshal(p.Value, &value) != nil {
			continue
		}

		has = true
		if value.PackageName != "" {
			b.Package = value.PackageName
		}
		if _, err := semver.Parse(value.Version); err == nil {
			b.Version = value.Version
		}
	}

	if !has && b.Package != "" {
		value, err := json.Marshal(fbc.PackageProperty{PackageName: b.Package, Version: b.Version})
		if err == nil { // Strings can always be encoded.
			b.Properties = append(slices.Clone(b.Properties), fbc.Property{Type: fbc.PropertyPackage, Value: value})
		}
	}

	version, _ := semver.Parse(b.Version) // An invalid version counts as 0.0.0.
	b.provider = requirement.NewProvider(b.Package, version, b.Properties)
}

// parseVersion returns the version of a bundle. It returns false if the bundle has none.
func (b *Bundle) parseVersion() (semver.Version, bool) {
	v, err := semver.Parse(b.Version)
	return v, err == nil
}

// isProhibited reports whether the bundle must not be installed.
func (b *Bundle) isProhibited() bool {
	return slices.ContainsFunc(b.Properties, func(p fbc.Property) bool { return p.Type == propertyDeprecated })
}

// parseDependencies returns the dependencies of an entry's bundle.
func (s *Snapshot) parseDependencies(e *Entry) ([]*dependency, error) {
	var all []*dependency
	for _, p := range e.Properties {
		if !isDependency(p.Type) {
			continue
		}
		one, err := s.parseDependencyCached(p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}

	return all, nil
}

// parseDependencyCached returns the dependency of a property, from the cache if possible.
func (s *Snapshot) parseDependencyCached(p fbc.Property) (*dependency, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := propertyKey{p.Type, string(p.Value)}
	known, ok := s.parsedDependencies[key]
	if !ok {
		known.dependency, known.err = parseDependency(p)
		if len(s.parsedDependencies) < maxCachedDependencies {
			s.parsedDependencies[key] = known
		}
	}

	return known.dependency, known.err
}

// findProviders returns the entries that meet a dependency, best first.
func (s *Snapshot) findProviders(d *dependency) []*Entry {
	if d.formula.Operator == requirement.API {
		return s.byGVK[d.formula.GVK]
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.providersByDependency[d.key]
	if ok {
		return found
	}

	names := s.packageNames
	if d.formula.Operator == requirement.Package {
		names = []string{d.formula.Name}
	}

	for _, name := range names {
		p := s.packages[name]
		if p == nil {
			continue
		}
		for _, c := range p.channels {
			for _, e := range c.entries {
				if d.formula.MetBy(e.provider) {
					found = append(found, e)
				}
			}
		}
	}

	slices.SortStableFunc(found, compareByChannel)
	if len(s.providersByDependency) < maxCachedDependencies {
		s.providersByDependency[d.key] = found
	}

	return found
}

// compareByChannel orders entries by channel: default channels first, then by package and
// channel.
func compareByChannel(a, b *Entry) int {
	switch {
	case a.isDefault != b.isDefault && a.isDefault:
		return -1
	case a.isDefault != b.isDefault:
		return 1
	case a.Package != b.Package:
		return strings.Compare(a.Package, b.Package)
	default:
		return strings.Compare(a.Channel, b.Channel)
	}
}
