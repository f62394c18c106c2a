package resolution

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// propertyLabel and its like are types of properties that only OLM Classic knows.
const (
	propertyLabel         = "olm.label"
	propertyLabelRequired = "olm.label.required"
	propertyDeprecated    = "olm.deprecated"
)

// maxRemembered bounds how many requirements a snapshot remembers the answers to.
const maxRemembered = 4096

// Bundle is one version of an operator.
type Bundle struct {
	// Name of its ClusterServiceVersion.
	Name    string
	Package string
	// Version as text; it may be none.
	Version string
	// Image that holds its manifests; empty when the catalog has them itself.
	Image string
	// Properties are what it says of itself.
	Properties []fbc.Property
	// Deprecation is why it should not be used any more; empty when it may.
	Deprecation string

	facts *dependency.Bundle
}

// Entry is a bundle as it stands in a channel. Entries of what is installed stand in none.
type Entry struct {
	*Bundle
	Channel string
	// Replaces names the bundle that this one is an update of.
	Replaces string
	// Skips names further ones.
	Skips []string
	// SkipRange is a range of versions that this one is an update of.
	SkipRange string

	in *Snapshot
	// isDefault reports whether the channel is the package's default channel.
	isDefault bool
}

// Catalog names the catalog of the entry.
func (e *Entry) Catalog() types.NamespacedName { return e.in.Catalog }

// id names the entry in messages.
func (e *Entry) id() string {
	return e.in.Catalog.Name + "/" + e.in.Catalog.Namespace + "/" + e.Channel + "/" + e.Name
}

// isUpdateOf reports whether what is installed can be updated to the entry.
func (e *Entry) isUpdateOf(installed *Entry) bool {
	switch {
	case e.Name == installed.Name:
		return false
	case e.Replaces == installed.Name || slices.Contains(e.Skips, installed.Name):
		return true
	case e.SkipRange == "":
		return false
	}

	version, ok := installed.version()
	includes, err := semver.ParseRange(e.SkipRange)
	return ok && err == nil && includes(version)
}

// Package is what a catalog says of a package beside its bundles.
type Package struct {
	DefaultChannel string
	// Deprecation is why the package should not be used any more; empty when it may.
	Deprecation string
	// Channels that are deprecated, and why.
	DeprecatedChannels map[string]string
}

// Snapshot is what a catalog offers at one time. It is safe for use by several goroutines.
type Snapshot struct {
	Catalog  types.NamespacedName
	Packages map[string]Package

	// entries of each package, in the order in which its channels are preferred, and in each channel
	// the newest first. What is no option is not among them.
	packages map[string]*pkg
	names    []string // of the packages, sorted
	byGVK    map[schema.GroupVersionKind][]*Entry
	size     int

	mu      sync.Mutex
	answers map[string][]*Entry
	parsed  map[fbcKey]parsed
}

type pkg struct {
	channels []*channel
	// all are the entries of all channels, in any order, with those that are no options.
	all []*Entry
}

type fbcKey struct{ kind, value string }

type parsed struct {
	requirement *requirement
	err         error
}

// NewSnapshot makes a snapshot of what a catalog says. It keeps the entries.
func NewSnapshot(catalog types.NamespacedName, packages map[string]Package, entries []*Entry) *Snapshot {
	return newSnapshot(catalog, packages, entries, order)
}

func newSnapshot(catalog types.NamespacedName, packages map[string]Package, entries []*Entry, order func(string, []*Entry) []*channel) *Snapshot {
	s := &Snapshot{
		Catalog: catalog, Packages: packages, packages: map[string]*pkg{}, byGVK: map[schema.GroupVersionKind][]*Entry{},
		size: len(entries), answers: map[string][]*Entry{}, parsed: map[fbcKey]parsed{},
	}
	for _, e := range entries {
		e.in = s
		e.prepare()
		p := s.packages[e.Package]
		if p == nil {
			p = &pkg{}
			s.packages[e.Package] = p
			s.names = append(s.names, e.Package)
		}

		p.all = append(p.all, e)
		e.isDefault = e.Channel != "" && e.Channel == packages[e.Package].DefaultChannel
	}

	slices.Sort(s.names)
	for _, name := range s.names {
		p := s.packages[name]
		p.channels = order(name, p.all)
		for _, c := range p.channels {
			for _, e := range c.entries {
				for _, gvk := range e.provides() {
					s.byGVK[gvk] = append(s.byGVK[gvk], e)
				}
			}
		}
	}

	for _, offers := range s.byGVK {
		slices.SortStableFunc(offers, byPlace)
	}

	return s
}

// Len is the number of entries.
func (s *Snapshot) Len() int { return s.size }

// Find returns the entry of a bundle in a channel, or in any when channel is empty; nil when there is none.
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

// prepare reads the properties. The package of a bundle is the one that its property olm.package names; one
// that has none gets it.
func (b *Bundle) prepare() {
	if b.facts != nil {
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
		if err == nil { // Texts always can be encoded.
			b.Properties = append(slices.Clone(b.Properties), fbc.Property{Type: fbc.PropertyPackage, Value: value})
		}
	}

	version, _ := semver.Parse(b.Version) // Without one it is 0.0.0.
	b.facts = dependency.NewBundle(b.Name, b.Package, version, b.Properties)
}

// version is the version of a bundle; false when it has none.
func (b *Bundle) version() (semver.Version, bool) {
	v, err := semver.Parse(b.Version)
	return v, err == nil
}

// provides are the APIs that a bundle provides, each once.
func (b *Bundle) provides() []schema.GroupVersionKind {
	var apis []schema.GroupVersionKind
	for _, p := range b.Properties {
		var value bundle.GVKProperty
		if p.Type != fbc.PropertyGVK || json.Unmarshal(p.Value, &value) != nil {
			continue
		}
		if gvk := (schema.GroupVersionKind{Group: value.Group, Version: value.Version, Kind: value.Kind}); !slices.Contains(apis, gvk) {
			apis = append(apis, gvk)
		}
	}

	return apis
}

// isProhibited reports whether the bundle must not be installed.
func (b *Bundle) isProhibited() bool {
	return slices.ContainsFunc(b.Properties, func(p fbc.Property) bool { return p.Type == propertyDeprecated })
}

// hasLabel reports whether the bundle has a label that another one requires.
func (b *Bundle) hasLabel(label string) bool {
	return slices.ContainsFunc(b.Properties, func(p fbc.Property) bool {
		var value struct {
			Label string `json:"label"`
		}
		return p.Type == propertyLabel && json.Unmarshal(p.Value, &value) == nil && value.Label == label
	})
}

// requirements are what an entry's bundle needs of others.
func (s *Snapshot) requirements(e *Entry) ([]*requirement, error) {
	var all []*requirement
	for _, p := range e.Properties {
		if !isRequirement(p.Type) {
			continue
		}
		one, err := s.requirement(p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}

	return all, nil
}

func (s *Snapshot) requirement(p fbc.Property) (*requirement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fbcKey{p.Type, string(p.Value)}
	known, ok := s.parsed[key]
	if !ok {
		known.requirement, known.err = parseRequirement(p)
		if len(s.parsed) < maxRemembered {
			s.parsed[key] = known
		}
	}

	return known.requirement, known.err
}

// meeting are the entries that meet a requirement, the best first.
func (s *Snapshot) meeting(r *requirement) []*Entry {
	if r.api != nil {
		return s.byGVK[*r.api]
	}

	s.mu.Lock() // What a rule sees of a bundle is made when it is first asked for.
	defer s.mu.Unlock()
	found, ok := s.answers[r.key]
	if ok {
		return found
	}

	names := s.names
	if r.pkg != "" {
		names = []string{r.pkg}
	}

	for _, name := range names {
		p := s.packages[name]
		if p == nil {
			continue
		}
		for _, c := range p.channels {
			for _, e := range c.entries {
				if r.metBy(e.Bundle) {
					found = append(found, e)
				}
			}
		}
	}

	slices.SortStableFunc(found, byPlace)
	if len(s.answers) < maxRemembered {
		s.answers[r.key] = found
	}

	return found
}

// byPlace orders entries by their channels: default channels first, then by package and channel.
func byPlace(a, b *Entry) int {
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
