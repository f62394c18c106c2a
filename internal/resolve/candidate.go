package resolve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// candidate is a bundle with a valid version, and what speaks for it.
type candidate struct {
	bundle *fbc.Bundle
	place
	// release as it stands in the catalog.
	release string

	deprecated bool
	// inChannels: it is in a channel that is asked for.
	inChannels bool
	// matches: its version satisfies the version range.
	matches bool
	// permitted: the upgrade policy lets it be chosen.
	permitted bool
	// unsuited: it is known not to run on the cluster.
	unsuited bool
}

// runs reports whether the bundle runs on the cluster, as far as the catalog says what it
// needs.
func (c *candidate) runs(on func(minKubeVersion string) bool) bool {
	if on == nil {
		return true
	}

	for _, p := range c.bundle.Properties {
		var metadata struct {
			MinKubeVersion string `json:"minKubeVersion"`
		}
		if p.Type == fbc.PropertyCSVMetadata && json.Unmarshal(p.Value, &metadata) == nil && metadata.MinKubeVersion != "" {
			return on(metadata.MinKubeVersion)
		}
	}

	return true
}

// place is where a bundle stands in the order of its package's bundles.
type place struct {
	version semver.Version
	// releaseParts are compared like the parts of a pre-release; none is lowest.
	releaseParts []semver.PRVersion
}

// compare orders by semantic version, then by release. Build metadata has no part in
// the semantic order; it counts as the release of a bundle that has no other.
func (p place) compare(other place) int {
	return cmp.Or(p.version.Compare(other.version), compareReleases(p.releaseParts, other.releaseParts))
}

const (
	// maxVersionBytes bounds a bundle's version. A label value or a name, where versions
	// are shown, has at most 253.
	maxVersionBytes = 253
	// maxReleaseBytes is the longest release that the format of catalogs allows.
	maxReleaseBytes = 20
)

// readBundle reads a bundle's version and release from its olm.package property.
func readBundle(b *fbc.Bundle) (candidate, error) {
	at := slices.IndexFunc(b.Properties, func(p fbc.Property) bool { return p.Type == fbc.PropertyPackage })
	if at < 0 {
		return candidate{}, fmt.Errorf("bundle %q has no property of type %q", b.Name, fbc.PropertyPackage)
	}

	var property fbc.PackageProperty
	if err := json.Unmarshal(b.Properties[at].Value, &property); err != nil {
		return candidate{}, fmt.Errorf("bundle %q: property %q: %w", b.Name, fbc.PropertyPackage, err)
	}

	p, err := newPlace(property.Version, property.Release)
	if err != nil {
		return candidate{}, fmt.Errorf("bundle %q: %w", b.Name, err)
	}

	return candidate{bundle: b, place: p, release: property.Release}, nil
}

// newPlace reads a strict semantic version and a release.
func newPlace(version, release string) (place, error) {
	if len(version) > maxVersionBytes {
		return place{}, fmt.Errorf("invalid version: longer than %d characters", maxVersionBytes)
	}

	v, err := semver.Parse(version)
	if err != nil {
		return place{}, fmt.Errorf("invalid version %q: %w", version, err)
	}

	if release == "" {
		// Build metadata that is no release, such as one with leading zeros, is legal
		// and just does not order.
		parts, err := parseRelease(v.Build)
		if err != nil {
			parts = nil
		}
		return place{version: v, releaseParts: parts}, nil
	}

	if len(release) > maxReleaseBytes {
		return place{}, fmt.Errorf("invalid release: longer than %d characters", maxReleaseBytes)
	}

	parts, err := parseRelease(strings.Split(release, "."))
	if err != nil {
		return place{}, fmt.Errorf("invalid release %q: %w", release, err)
	}

	return place{version: v, releaseParts: parts}, nil
}

func parseRelease(segments []string) ([]semver.PRVersion, error) {
	var parts []semver.PRVersion
	for _, segment := range segments {
		part, err := semver.NewPRVersion(segment)
		if err != nil {
			return nil, fmt.Errorf("segment %q: %w", segment, err)
		}
		parts = append(parts, part)
	}

	return parts, nil
}

// compareReleases: part by part as pre-releases compare; what is longer is higher, so
// none is lower than any.
func compareReleases(a, b []semver.PRVersion) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].Compare(b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// installedBundle is what is installed, as far as it could be read. The zero value
// means that nothing is.
type installedBundle struct {
	name, release string
	// place is nil when the version is not a semantic version.
	place *place
}

func readInstalled(installed *Installed) installedBundle {
	if installed == nil {
		return installedBundle{}
	}

	b := installedBundle{name: installed.Name, release: installed.Release}
	if p, err := newPlace(installed.Version, installed.Release); err == nil {
		b.place = &p
	}
	return b
}

// is reports whether a candidate is the installed bundle: by its name, or because it is
// the very same version and release, which another catalog may name otherwise.
func (b installedBundle) is(c *candidate) bool {
	if b.name != "" && b.name == c.bundle.Name {
		return true
	}
	return b.place != nil && b.release == c.release && identical(b.place.version, c.version)
}

// isNewerThan reports whether a candidate would be a step back. What is unknown is none.
func (b installedBundle) isNewerThan(c *candidate) bool {
	return b.place != nil && c.compare(*b.place) < 0
}

// prefers reports whether a is the better choice. Where neither deprecation nor version
// nor release decides, what is installed stays, and then names decide, so that the
// same catalogs always give the same answer.
func (b installedBundle) prefers(a, other *candidate) bool {
	if a.deprecated != other.deprecated {
		return other.deprecated
	}
	if c := a.compare(other.place); c != 0 {
		return c > 0
	}
	if stays := a.bundle.Name == b.name; stays != (other.bundle.Name == b.name) {
		return stays
	}
	return a.bundle.Name < other.bundle.Name
}

// node is the installed bundle as a start in the upgrade graph.
func (b installedBundle) node() upgradegraph.Node {
	n := upgradegraph.Node{Name: b.name}
	if b.place != nil {
		n.Version = &b.place.version
	}
	return n
}

// identical reports whether two versions are the same to the last character.
func identical(a, b semver.Version) bool { return a.Equals(b) && slices.Equal(a.Build, b.Build) }
