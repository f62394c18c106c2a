package fbc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// Release distinguishes builds of one version. It consists of dot-separated identifiers, each
// valid in a semver pre-release. It is empty if there is none. A Release from ParseRelease or its
// JSON form is valid.
type Release string

// maxReleaseLength is the maximum length of a release, in bytes.
const maxReleaseLength = 20

// ParseRelease parses a release. An empty text means that there is no release.
func ParseRelease(text string) (Release, error) {
	if text == "" {
		return "", nil
	}
	if len(text) > maxReleaseLength {
		return "", fmt.Errorf("invalid release %q: exceeds maximum length of %d characters", text, maxReleaseLength)
	}

	var faults []error
	for i, segment := range strings.Split(text, ".") {
		if _, err := semver.NewPRVersion(segment); err != nil {
			faults = append(faults, fmt.Errorf("segment %d: %w", i, err))
		}
	}

	if len(faults) > 0 {
		return "", fmt.Errorf("invalid release %q: %w", text, errors.Join(faults...))
	}

	return Release(text), nil
}

// Compare returns -1, 0 or 1. No release is lower than any release; two releases are ordered as
// semver orders pre-releases.
func (r Release) Compare(other Release) int {
	if r == "" || other == "" {
		return cmp.Compare(len(r), len(other))
	}
	return semver.Version{Pre: r.parseIdentifiers()}.Compare(semver.Version{Pre: other.parseIdentifiers()})
}

func (r Release) parseIdentifiers() []semver.PRVersion {
	var segments []semver.PRVersion
	for segment := range strings.SplitSeq(string(r), ".") {
		identifier, err := semver.NewPRVersion(segment)
		if err != nil {
			identifier = semver.PRVersion{VersionStr: segment}
		}
		segments = append(segments, identifier)
	}

	return segments
}

// UnmarshalJSON reads a string, which must be a valid release, or null for none.
func (r *Release) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	release, err := ParseRelease(text)
	*r = release
	return err
}

// VersionRelease is the version and release of a bundle, by which the bundles of a package are
// ordered.
type VersionRelease struct {
	Version semver.Version `json:"version"`
	Release Release        `json:"release"`
}

// Compare returns -1, 0 or 1. It compares the precedence of the versions, which ignores build
// metadata, and then the releases.
func (v VersionRelease) Compare(other VersionRelease) int {
	return cmp.Or(v.Version.Compare(other.Version), v.Release.Compare(other.Release))
}

// String returns the version, followed by a dash and the release if there is one.
func (v VersionRelease) String() string {
	if v.Release == "" {
		return v.Version.String()
	}
	return v.Version.String() + "-" + string(v.Release)
}

// KubernetesSafe returns the String form in lower case, with a dash for the plus of build
// metadata. It is valid in names of Kubernetes objects.
func (v VersionRelease) KubernetesSafe() string {
	return strings.ToLower(strings.ReplaceAll(v.String(), "+", "-"))
}

// annotationSubstitutesFor, on a ClusterServiceVersion, names the bundle that it is a rebuild of.
// The build metadata of such a bundle is its release.
const annotationSubstitutesFor = "olm.substitutesFor"

// VersionRelease returns the version and release of the bundle's olm.package property. Older
// bundles have no release. If an annotation of the ClusterServiceVersion marks such a bundle as a
// rebuild of another, its build metadata becomes the release.
func (b *Bundle) VersionRelease() (VersionRelease, error) {
	var stated *PackageProperty
	for _, p := range b.Properties {
		if p.Type != PropertyPackage {
			continue
		}
		if stated != nil {
			return VersionRelease{}, fmt.Errorf("must be exactly one property of type %q", PropertyPackage)
		}
		stated = &PackageProperty{}
		if err := json.Unmarshal(p.Value, stated); err != nil {
			return VersionRelease{}, fmt.Errorf("unable to unmarshal %q property for bundle %q: %w", PropertyPackage, b.Name, err)
		}
	}

	if stated == nil {
		return VersionRelease{}, fmt.Errorf("no %q property found for bundle %q", PropertyPackage, b.Name)
	}

	version, err := semver.Parse(stated.Version)
	if err != nil {
		return VersionRelease{}, fmt.Errorf("invalid semver version %q in %q property for bundle %q: %w", stated.Version, PropertyPackage, b.Name, err)
	}

	release, err := ParseRelease(stated.Release)
	if err != nil {
		return VersionRelease{}, fmt.Errorf("invalid release %q in %q property for bundle %q: %w", stated.Release, PropertyPackage, b.Name, err)
	}

	if release == "" && len(version.Build) > 0 && b.isRebuild() {
		if release, err = ParseRelease(strings.Join(version.Build, ".")); err != nil {
			return VersionRelease{}, fmt.Errorf("unable to convert build metadata to release for bundle %q: %w", b.Name, err)
		}
		version.Build = nil
	}

	return VersionRelease{Version: version, Release: release}, nil
}

// isRebuild reports whether the bundle's ClusterServiceVersion substitutes for another bundle.
func (b *Bundle) isRebuild() bool {
	var annotated struct {
		Annotations map[string]json.RawMessage `json:"annotations"`
	}
	for _, p := range b.Properties {
		switch p.Type {
		case PropertyCSVMetadata:
			if json.Unmarshal(p.Value, &annotated) == nil && hasSubstitutesFor(annotated.Annotations) {
				return true
			}
		case PropertyBundleObject:
			object, err := decodeBundleObject(p.Value)
			if err == nil && object.kind == kindCSV && hasSubstitutesFor(object.readAnnotations()) {
				return true
			}
		}
	}

	return false
}

func hasSubstitutesFor(annotations map[string]json.RawMessage) bool {
	var base string
	return json.Unmarshal(annotations[annotationSubstitutesFor], &base) == nil && base != ""
}
