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

// candidate is a bundle with a valid version, and how it meets the request.
type candidate struct {
	bundle *fbc.Bundle
	bundleVersion
	// release as written in the catalog.
	release string

	deprecated bool
	// inChannels is true when a requested channel contains the bundle.
	inChannels bool
	// matches is true when the version satisfies the requested range.
	matches bool
	// permitted is true when the upgrade policy allows the bundle.
	permitted bool
	// incompatible is true when the bundle is known not to run on the cluster.
	incompatible bool
}

// isCompatible reports whether the bundle runs on the cluster. A bundle for which the
// catalog states no minKubeVersion runs everywhere.
func (c *candidate) isCompatible(on func(minKubeVersion string) bool) bool {
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

// bundleVersion orders the bundles of a package.
type bundleVersion struct {
	version semver.Version
	// releaseParts are compared like the parts of a pre-release; an empty list is lowest.
	releaseParts []semver.PRVersion
}

// compare orders by semantic version, then by release. Semantic versions ignore build
// metadata; it serves as the release of a bundle without an explicit one.
func (p bundleVersion) compare(other bundleVersion) int {
	return cmp.Or(p.version.Compare(other.version), compareReleases(p.releaseParts, other.releaseParts))
}

const (
	// maxVersionBytes limits the length of a bundle's version. Versions appear in names
	// of objects, which have at most 253 characters.
	maxVersionBytes = 253
	// maxReleaseBytes is the longest release that the format of catalogs allows.
	maxReleaseBytes = 20
)

// newCandidate reads a bundle's version and release from its olm.package property.
func newCandidate(b *fbc.Bundle) (candidate, error) {
	at := slices.IndexFunc(b.Properties, func(p fbc.Property) bool { return p.Type == fbc.PropertyPackage })
	if at < 0 {
		return candidate{}, fmt.Errorf("bundle %q has no property of type %q", b.Name, fbc.PropertyPackage)
	}

	var property fbc.PackageProperty
	if err := json.Unmarshal(b.Properties[at].Value, &property); err != nil {
		return candidate{}, fmt.Errorf("bundle %q: property %q: %w", b.Name, fbc.PropertyPackage, err)
	}

	p, err := parseBundleVersion(property.Version, property.Release)
	if err != nil {
		return candidate{}, fmt.Errorf("bundle %q: %w", b.Name, err)
	}

	return candidate{bundle: b, bundleVersion: p, release: property.Release}, nil
}

// parseBundleVersion parses a strict semantic version and a release.
func parseBundleVersion(version, release string) (bundleVersion, error) {
	if len(version) > maxVersionBytes {
		return bundleVersion{}, fmt.Errorf("invalid version: longer than %d characters", maxVersionBytes)
	}

	v, err := semver.Parse(version)
	if err != nil {
		return bundleVersion{}, fmt.Errorf("invalid version %q: %w", version, err)
	}

	if release == "" {
		// Build metadata that cannot be a release, such as a number with leading zeros,
		// is legal. It does not take part in the order.
		parts, err := parseRelease(v.Build)
		if err != nil {
			parts = nil
		}
		return bundleVersion{version: v, releaseParts: parts}, nil
	}

	if len(release) > maxReleaseBytes {
		return bundleVersion{}, fmt.Errorf("invalid release: longer than %d characters", maxReleaseBytes)
	}

	parts, err := parseRelease(strings.Split(release, "."))
	if err != nil {
		return bundleVersion{}, fmt.Errorf("invalid release %q: %w", release, err)
	}

	return bundleVersion{version: v, releaseParts: parts}, nil
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

// compareReleases compares part by part, as pre-releases compare. If all common parts
// are equal, the longer release is higher.
func compareReleases(a, b []semver.PRVersion) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].Compare(b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// installedBundle is the installed bundle with its parsed version. The zero value means
// that nothing is installed.
type installedBundle struct {
	name, release string
	// bundleVersion is nil when the version is not a semantic version.
	bundleVersion *bundleVersion
}

func readInstalled(installed *Installed) installedBundle {
	if installed == nil {
		return installedBundle{}
	}

	b := installedBundle{name: installed.Name, release: installed.Release}
	if p, err := parseBundleVersion(installed.Version, installed.Release); err == nil {
		b.bundleVersion = &p
	}
	return b
}

// isSameBundle reports whether a candidate is the installed bundle. It has the same name,
// or exactly the same version and release under the name of another catalog.
func (b installedBundle) isSameBundle(c *candidate) bool {
	if b.name != "" && b.name == c.bundle.Name {
		return true
	}
	return b.bundleVersion != nil && b.release == c.release && isIdentical(b.bundleVersion.version, c.version)
}

// isNewerThan reports whether a candidate would be a downgrade. It returns false when the
// installed version is unknown.
func (b installedBundle) isNewerThan(c *candidate) bool {
	return b.bundleVersion != nil && c.compare(*b.bundleVersion) < 0
}

// prefersCandidate reports whether a is a better choice than other. Deprecation decides
// first, then version and release, then whether one is installed. Names decide last, so
// that the same catalogs always have the same result.
func (b installedBundle) prefersCandidate(a, other *candidate) bool {
	if a.deprecated != other.deprecated {
		return other.deprecated
	}
	if c := a.compare(other.bundleVersion); c != 0 {
		return c > 0
	}
	if stays := a.bundle.Name == b.name; stays != (other.bundle.Name == b.name) {
		return stays
	}
	return a.bundle.Name < other.bundle.Name
}

// graphNode returns the installed bundle as a start node in the upgrade graph.
func (b installedBundle) graphNode() upgradegraph.Node {
	n := upgradegraph.Node{Name: b.name}
	if b.bundleVersion != nil {
		n.Version = &b.bundleVersion.version
	}
	return n
}

// isIdentical reports whether two versions are equal, including build metadata.
func isIdentical(a, b semver.Version) bool { return a.Equals(b) && slices.Equal(a.Build, b.Build) }
