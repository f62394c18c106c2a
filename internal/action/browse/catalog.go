// Package browse looks into catalogs: what packages there are, what one of them offers,
// how its versions lead to one another, and what changes from one catalog to the next.
//
// It takes blobs wherever they come from. Which catalog that is, and how the answer is
// written, is its caller's business; choosing a bundle to install is internal/resolve's.
package browse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Package is what a catalog says of a package, without pictures and manifests.
type Package struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	// Description of the package, or that of its newest bundle when it has none.
	Description    string   `json:"description,omitempty"`
	Provider       string   `json:"provider,omitempty"`
	Keywords       []string `json:"keywords,omitempty"`
	DefaultChannel string   `json:"defaultChannel"`
	// Deprecated is why the package is deprecated, empty when it is not.
	Deprecated string `json:"deprecated,omitempty"`
	// Channels by name.
	Channels []Channel `json:"channels"`
	// Bundles by descending version.
	Bundles []Bundle `json:"bundles"`

	// channels as the catalog has them, and what is deprecated, for drawings.
	channels     []fbc.Channel
	deprecations *fbc.Deprecations
}

// Channel is a channel of a package.
type Channel struct {
	Name string `json:"name"`
	// Heads are the bundles that nothing in the channel updates: one, in a sound channel.
	Heads []string `json:"heads"`
	// Entries counts the bundles of the channel.
	Entries    int    `json:"entries"`
	Deprecated string `json:"deprecated,omitempty"`
}

// Bundle is a version of a package.
type Bundle struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Release string `json:"release,omitempty"`
	Image   string `json:"image,omitempty"`
	// Channels that have the bundle, by name.
	Channels []string `json:"channels,omitempty"`
	// Provides are the kinds that the bundle brings, as Kind.version.group.
	Provides []string `json:"provides,omitempty"`
	// Requires are the kinds and packages that must be there, as Kind.version.group and
	// as "package <range>".
	Requires     []string `json:"requires,omitempty"`
	InstallModes []string `json:"installModes,omitempty"`
	// MinKubeVersion is the oldest Kubernetes that the bundle works on.
	MinKubeVersion string `json:"minKubeVersion,omitempty"`
	Deprecated     string `json:"deprecated,omitempty"`

	version  *semver.Version
	metadata *metadata
}

// metadata is what is read of an olm.csv.metadata property.
type metadata struct {
	DisplayName    string      `json:"displayName"`
	Description    string      `json:"description"`
	Keywords       []string    `json:"keywords"`
	MinKubeVersion string      `json:"minKubeVersion"`
	InstallModes   []mode      `json:"installModes"`
	Provider       nameAndLink `json:"provider"`
}

type mode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

type nameAndLink struct {
	Name string `json:"name"`
}

// Load reads the packages of a catalog, by name. A name limits it to one package; it is
// not an error when the catalog does not have it. Blobs that do not fit their schema are.
func Load(name string, metas iter.Seq2[fbc.Meta, error]) ([]*Package, error) {
	l := loader{packages: map[string]*Package{}}
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if pkg := meta.PackageName(); pkg == "" || name != "" && pkg != name {
			continue
		}
		if err := l.add(meta); err != nil {
			return nil, err
		}
	}

	all := make([]*Package, 0, len(l.packages))
	for _, p := range l.packages {
		p.finish()
		all = append(all, p)
	}

	slices.SortFunc(all, func(a, b *Package) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

type loader struct{ packages map[string]*Package }

func (l loader) add(meta fbc.Meta) error {
	name := meta.PackageName()
	p := l.packages[name]
	if p == nil {
		p = &Package{Name: name}
		l.packages[name] = p
	}

	switch meta.Schema {
	case fbc.SchemaPackage:
		pkg, err := fbc.DecodePackage(meta)
		if err != nil {
			return err
		}
		p.DefaultChannel, p.Description = pkg.DefaultChannel, pkg.Description
	case fbc.SchemaChannel:
		channel, err := fbc.DecodeChannel(meta)
		if err != nil {
			return err
		}
		p.channels = append(p.channels, *channel)
	case fbc.SchemaBundle:
		bundle, err := readBundle(meta)
		if err != nil {
			return err
		}
		p.Bundles = append(p.Bundles, *bundle)
	case fbc.SchemaDeprecations:
		deprecations, err := fbc.DecodeDeprecations(meta)
		if err != nil {
			return err
		}
		p.deprecations = deprecations
	}

	return nil
}

func readBundle(meta fbc.Meta) (*Bundle, error) {
	blob, err := fbc.DecodeBundle(meta)
	if err != nil {
		return nil, err
	}

	b := &Bundle{Name: blob.Name, Image: blob.Image}
	for i, property := range blob.Properties {
		if err := b.take(property); err != nil {
			return nil, fmt.Errorf("%s: properties[%d] of type %q does not fit its type: %w", meta, i, property.Type, err)
		}
	}

	if v, err := semver.Parse(b.Version); err == nil {
		b.version = &v
	}

	return b, nil
}

// take reads a property. Those that say nothing to a reader are passed over.
func (b *Bundle) take(property fbc.Property) error {
	switch property.Type {
	case fbc.PropertyPackage:
		var value fbc.PackageProperty
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return err
		}
		b.Version, b.Release = value.Version, value.Release

	case fbc.PropertyGVK, fbc.PropertyGVKRequired:
		var value struct{ Group, Version, Kind string }
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return err
		}
		kind := value.Kind + "." + value.Version + "." + value.Group
		if property.Type == fbc.PropertyGVK {
			b.Provides = append(b.Provides, kind)
		} else {
			b.Requires = append(b.Requires, kind)
		}

	case fbc.PropertyPackageRequired:
		var value struct{ PackageName, VersionRange string }
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return err
		}
		b.Requires = append(b.Requires, strings.TrimSpace(value.PackageName+" "+value.VersionRange))

	case fbc.PropertyConstraint:
		var value struct{ FailureMessage string }
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return err
		}
		b.Requires = append(b.Requires, cmp.Or(value.FailureMessage, "a constraint of its own"))

	case fbc.PropertyCSVMetadata:
		b.metadata = &metadata{}
		return json.Unmarshal(property.Value, b.metadata)
	}

	return nil
}

// finish brings together what the blobs of a package say of one another.
func (p *Package) finish() {
	slices.SortStableFunc(p.channels, func(a, b fbc.Channel) int { return strings.Compare(a.Name, b.Name) })
	deprecated := map[fbc.DeprecationReference]string{}
	if p.deprecations != nil {
		for _, entry := range p.deprecations.Entries {
			deprecated[entry.Reference] = entry.Message
		}
	}

	p.Deprecated = deprecated[fbc.DeprecationReference{Schema: fbc.SchemaPackage}]
	graph := p.Graph()
	in := map[string][]string{}
	for _, channel := range p.channels {
		for _, entry := range channel.Entries {
			in[entry.Name] = append(in[entry.Name], channel.Name)
		}
		p.Channels = append(p.Channels, Channel{
			Name: channel.Name, Heads: graph.Heads(channel.Name), Entries: len(channel.Entries),
			Deprecated: deprecated[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: channel.Name}],
		})
	}

	slices.SortStableFunc(p.Bundles, newerFirst)
	for i := range p.Bundles {
		b := &p.Bundles[i]
		b.Channels = slices.Compact(in[b.Name])
		b.Deprecated = deprecated[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: b.Name}]
		slices.Sort(b.Provides)
		slices.Sort(b.Requires)
		b.describe()
	}

	if newest := p.Newest(); newest != nil && newest.metadata != nil {
		m := newest.metadata
		p.DisplayName, p.Keywords, p.Provider = m.DisplayName, m.Keywords, m.Provider.Name
		p.Description = cmp.Or(p.Description, m.Description)
	}

	for i := range p.Bundles {
		p.Bundles[i].metadata = nil // its description is large
	}
}

// describe takes over from the metadata what stays.
func (b *Bundle) describe() {
	if b.metadata == nil {
		return
	}

	b.MinKubeVersion = b.metadata.MinKubeVersion
	for _, mode := range b.metadata.InstallModes {
		if mode.Supported {
			b.InstallModes = append(b.InstallModes, mode.Type)
		}
	}
}

// newerFirst orders bundles by descending version; those without one stand last.
func newerFirst(a, b Bundle) int {
	switch {
	case a.version != nil && b.version != nil:
		return cmp.Or(b.version.Compare(*a.version), strings.Compare(b.Release, a.Release), strings.Compare(a.Name, b.Name))
	case a.version != nil:
		return -1
	case b.version != nil:
		return 1
	}

	return strings.Compare(a.Name, b.Name)
}

// Newest is the head of the default channel, and the newest bundle where that has none.
// It is nil when the package has no bundles.
func (p *Package) Newest() *Bundle {
	for _, channel := range p.Channels {
		if channel.Name != p.DefaultChannel || len(channel.Heads) == 0 {
			continue
		}
		if i := slices.IndexFunc(p.Bundles, func(b Bundle) bool { return b.Name == channel.Heads[0] }); i >= 0 {
			return &p.Bundles[i]
		}
	}

	if len(p.Bundles) == 0 {
		return nil
	}
	return &p.Bundles[0]
}

// Graph is the upgrade graph of the named channels, all when none are named.
func (p *Package) Graph(channels ...string) *upgradegraph.Graph {
	versions := make(map[string]semver.Version, len(p.Bundles))
	for _, b := range p.Bundles {
		if b.version != nil {
			versions[b.Name] = *b.version
		}
	}

	chosen := p.channels
	if len(channels) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(c fbc.Channel) bool { return !slices.Contains(channels, c.Name) })
	}

	return upgradegraph.New(p.Name, chosen, func(name string) (semver.Version, bool) {
		v, ok := versions[name]
		return v, ok
	})
}

// Drawing is the upgrade graph of the named channels with what of it is deprecated.
func (p *Package) Drawing(channels ...string) upgradegraph.Drawing {
	return upgradegraph.Drawing{Graph: p.Graph(channels...), Deprecations: p.deprecations}
}
