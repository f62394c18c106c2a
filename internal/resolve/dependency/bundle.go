package dependency

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// Bundle is a bundle that is installed, to be installed, or offered by a catalog. It is
// not safe for concurrent use.
type Bundle struct {
	Name    string
	Package string
	Version semver.Version
	// Properties of the bundle. They declare what the bundle provides and requires.
	Properties []fbc.Property
	// Extension is the name of the extension that installed the bundle; empty for a bundle
	// that is not installed.
	Extension string
	// Offer is the bundle's place in a catalog; zero for a bundle that no catalog offers.
	Offer

	provider *requirement.Provider
	parsed   bool
	requires []Requirement
	err      error
}

// Offer is the place of a bundle in a catalog.
type Offer struct {
	Catalog  string
	Priority int32
	// Channel is the package's default channel if it contains the bundle, else the first
	// such channel by name. Empty when no channel contains the bundle.
	Channel string
	// Default reports whether Channel is the default channel.
	Default    bool
	Deprecated bool
}

// NewBundle returns a bundle of a package with the given properties.
func NewBundle(name, pkg string, version semver.Version, properties []fbc.Property) *Bundle {
	return &Bundle{
		Name: name, Package: pkg, Version: version, Properties: properties, provider: requirement.NewProvider(pkg, version, properties),
	}
}

// Requires returns the bundle's requirements. The error names the first requirement that
// cannot be parsed.
func (b *Bundle) Requires() ([]Requirement, error) {
	if !b.parsed {
		b.requires, b.err = Parse(b.Properties)
		b.parsed = true
	}
	return b.requires, b.err
}

// Provides reports whether the bundle provides an API.
func (b *Bundle) Provides(gvk schema.GroupVersionKind) bool { return b.provider.Provides(gvk) }

// meetsLeaf reports whether the bundle meets a leaf of a requirement.
func (b *Bundle) meetsLeaf(leaf *requirement.Formula) bool { return b.provider.Meets(leaf) }

// Matches reports whether the bundle meets some part of one of the requirements.
func (b *Bundle) Matches(requirements []Requirement) bool {
	found := false
	for i := range requirements {
		requirements[i].formula.VisitLeaves(func(leaf *requirement.Formula, negated bool) { found = found || !negated && b.meetsLeaf(leaf) })
	}
	return found
}

// Catalog is the part of a catalog that was read.
type Catalog struct {
	Name     string
	Priority int32
	// Contents has the content of each package.
	Contents []*fbc.Content
}

// listOffers returns the bundles of a catalog that have a valid version.
func (c *Catalog) listOffers() []*Bundle {
	var all []*Bundle
	for _, content := range c.Contents {
		if content == nil {
			continue
		}

		deprecated := map[string]bool{}
		if content.Deprecations != nil {
			for _, entry := range content.Deprecations.Entries {
				deprecated[entry.Reference.Name] = deprecated[entry.Reference.Name] || entry.Reference.Schema == fbc.SchemaBundle
			}
		}

		channels := bestChannels(content)
		for i := range content.Bundles {
			raw := &content.Bundles[i]
			version, err := VersionOf(raw.Properties)
			if err != nil {
				continue // A bundle without a version can never be chosen.
			}

			b := NewBundle(raw.Name, raw.Package, version, raw.Properties)
			b.Offer = Offer{Catalog: c.Name, Priority: c.Priority, Deprecated: deprecated[raw.Name], Channel: channels[raw.Name]}
			b.Default = b.Channel != "" && content.Package != nil && b.Channel == content.Package.DefaultChannel
			all = append(all, b)
		}
	}

	return all
}

// bestChannels returns for each bundle the value of Offer.Channel.
func bestChannels(content *fbc.Content) map[string]string {
	best := map[string]string{}
	standard := ""
	if content.Package != nil {
		standard = content.Package.DefaultChannel
	}

	for i := range content.Channels {
		channel := content.Channels[i].Name
		for _, entry := range content.Channels[i].Entries {
			if now, ok := best[entry.Name]; !ok || channel == standard || now != standard && channel < now {
				best[entry.Name] = channel
			}
		}
	}

	return best
}

// VersionOf returns the version in the olm.package property among properties.
func VersionOf(properties []fbc.Property) (semver.Version, error) {
	for _, p := range properties {
		if p.Type != fbc.PropertyPackage {
			continue
		}
		var value fbc.PackageProperty
		if err := json.Unmarshal(p.Value, &value); err != nil {
			return semver.Version{}, fmt.Errorf("property %q: %w", p.Type, err)
		}
		return semver.Parse(value.Version)
	}

	return semver.Version{}, fmt.Errorf("no property of type %q", fbc.PropertyPackage)
}

// compareOffers returns a function that orders offers, the best first. It prefers
// bundles that are not deprecated, then the catalog of the highest priority, then the
// catalog of the bundle to install, then the package's default channel. Package names
// and the highest version decide last.
func compareOffers(asking string) func(a, b *Bundle) int {
	return func(a, b *Bundle) int {
		return cmp.Or(
			compareBools(a.Deprecated, b.Deprecated),
			cmp.Compare(b.Priority, a.Priority),
			compareBools(a.Catalog != asking, b.Catalog != asking),
			compareBools(!a.Default, !b.Default),
			cmp.Compare(a.Package, b.Package),
			b.Version.Compare(a.Version),
			cmp.Compare(a.Catalog, b.Catalog),
			cmp.Compare(a.Name, b.Name),
		)
	}
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
