// Package browse reads catalogs: their packages, the content and the upgrade graph of a
// package, and the differences between two catalogs.
//
// It reads blobs from any source. Callers open the catalog and print the result. Package
// resolve chooses bundles to install.
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

// Package describes a package of a catalog without icons and manifests.
type Package struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	// Description is that of the package, or of its newest bundle if the package has none.
	Description    string   `json:"description,omitempty"`
	Provider       string   `json:"provider,omitempty"`
	Keywords       []string `json:"keywords,omitempty"`
	DefaultChannel string   `json:"defaultChannel"`
	// Deprecated is the reason why the package is deprecated. It is empty if it is not.
	Deprecated string `json:"deprecated,omitempty"`
	// Channels are sorted by name.
	Channels []Channel `json:"channels"`
	// Bundles are sorted by version, the highest first.
	Bundles []Bundle `json:"bundles"`

	// channels and deprecations are the blobs of the catalog, for upgrade graphs.
	channels     []fbc.Channel
	deprecations *fbc.Deprecations
}

// Channel is a channel of a package.
type Channel struct {
	Name string `json:"name"`
	// Heads are the bundles that no other bundle of the channel updates. A valid channel
	// has one.
	Heads []string `json:"heads"`
	// Entries is the number of bundles of the channel.
	Entries    int    `json:"entries"`
	Deprecated string `json:"deprecated,omitempty"`
}

// Bundle is a version of a package.
type Bundle struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Release string `json:"release,omitempty"`
	Image   string `json:"image,omitempty"`
	// Channels are the sorted names of the channels that contain the bundle.
	Channels []string `json:"channels,omitempty"`
	// Provides are the kinds that the bundle provides, as Kind.version.group.
	Provides []string `json:"provides,omitempty"`
	// Requires are the required kinds and packages, as Kind.version.group and "package
	// <range>".
	Requires     []string `json:"requires,omitempty"`
	InstallModes []string `json:"installModes,omitempty"`
	// MinKubeVersion is the oldest Kubernetes version that the bundle supports.
	MinKubeVersion string `json:"minKubeVersion,omitempty"`
	Deprecated     string `json:"deprecated,omitempty"`

	version  *semver.Version
	metadata *csvMetadata
}

// csvMetadata contains the fields of an olm.csv.metadata property that are read.
type csvMetadata struct {
	DisplayName    string        `json:"displayName"`
	Description    string        `json:"description"`
	Keywords       []string      `json:"keywords"`
	MinKubeVersion string        `json:"minKubeVersion"`
	InstallModes   []installMode `json:"installModes"`
	Provider       providerName  `json:"provider"`
}

type installMode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

type providerName struct {
	Name string `json:"name"`
}

// Load reads the packages of a catalog, sorted by name. A name limits the result to one
// package, which may be missing. Load returns an error for blobs that do not match their
// schema.
func Load(name string, metas iter.Seq2[fbc.Meta, error]) ([]*Package, error) {
	l := packageLoader{packages: map[string]*Package{}}
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if pkg := meta.PackageName(); pkg == "" || name != "" && pkg != name {
			continue
		}
		if err := l.addBlob(meta); err != nil {
			return nil, err
		}
	}

	all := make([]*Package, 0, len(l.packages))
	for _, p := range l.packages {
		p.linkBlobs()
		all = append(all, p)
	}

	slices.SortFunc(all, func(a, b *Package) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// packageLoader collects the blobs of packages by package name.
type packageLoader struct{ packages map[string]*Package }

// addBlob adds a blob to its package.
func (l packageLoader) addBlob(meta fbc.Meta) error {
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
		bundle, err := decodeBundle(meta)
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

// decodeBundle decodes a bundle with the properties that are displayed.
func decodeBundle(meta fbc.Meta) (*Bundle, error) {
	blob, err := fbc.DecodeBundle(meta)
	if err != nil {
		return nil, err
	}

	b := &Bundle{Name: blob.Name, Image: blob.Image}
	for i, property := range blob.Properties {
		if err := b.applyProperty(property); err != nil {
			return nil, fmt.Errorf("%s: properties[%d] of type %q does not fit its type: %w", meta, i, property.Type, err)
		}
	}

	if v, err := semver.Parse(b.Version); err == nil {
		b.version = &v
	}

	return b, nil
}

// applyProperty sets the fields that a property describes. It ignores other properties.
func (b *Bundle) applyProperty(property fbc.Property) error {
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
		b.metadata = &csvMetadata{}
		return json.Unmarshal(property.Value, b.metadata)
	}

	return nil
}

// linkBlobs computes the fields of a package that depend on several of its blobs.
func (p *Package) linkBlobs() {
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

	slices.SortStableFunc(p.Bundles, compareNewestFirst)
	for i := range p.Bundles {
		b := &p.Bundles[i]
		b.Channels = slices.Compact(in[b.Name])
		b.Deprecated = deprecated[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: b.Name}]
		slices.Sort(b.Provides)
		slices.Sort(b.Requires)
		b.applyMetadata()
	}

	if newest := p.Newest(); newest != nil && newest.metadata != nil {
		m := newest.metadata
		p.DisplayName, p.Keywords, p.Provider = m.DisplayName, m.Keywords, m.Provider.Name
		p.Description = cmp.Or(p.Description, m.Description)
	}

	for i := range p.Bundles {
		p.Bundles[i].metadata = nil // its description may be large
	}
}

// applyMetadata sets the fields that the CSV's metadata describe.
func (b *Bundle) applyMetadata() {
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

// compareNewestFirst sorts bundles by version, the highest first. Bundles without a version
// come last.
func compareNewestFirst(a, b Bundle) int {
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

// Node returns the bundle as a node of the upgrade graph.
func (b *Bundle) Node() upgradegraph.Node { return upgradegraph.Node{Name: b.Name, Version: b.version} }

// Newest returns the head of the default channel, or the newest bundle if the default
// channel has none. It returns nil if the package has no bundles.
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

// Graph returns the upgrade graph of the named channels, or of all channels if none is
// named.
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

// Drawing returns the upgrade graph of the named channels with their deprecations.
func (p *Package) Drawing(channels ...string) upgradegraph.Drawing {
	return upgradegraph.Drawing{Graph: p.Graph(channels...), Deprecations: p.deprecations}
}
