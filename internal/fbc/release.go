package fbc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// Release tells builds of one version apart: identifiers with dots between them, each as
// those of a semver pre-release. Empty means that there is none. One that ParseRelease
// or its JSON form has given is valid.
type Release string

// maxRelease is the largest length of a release, in bytes.
const maxRelease = 20

// ParseRelease reads a release; an empty text is none.
func ParseRelease(text string) (Release, error) {
	if text == "" {
		return "", nil
	}
	if len(text) > maxRelease {
		return "", fmt.Errorf("invalid release %q: exceeds maximum length of %d characters", text, maxRelease)
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

// Compare returns -1, 0 or 1: no release is before any, and two are ordered as semver
// orders pre-releases.
func (r Release) Compare(other Release) int {
	if r == "" || other == "" {
		return cmp.Compare(len(r), len(other))
	}
	return semver.Version{Pre: r.segments()}.Compare(semver.Version{Pre: other.segments()})
}

func (r Release) segments() []semver.PRVersion {
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

// VersionRelease is what the bundles of a package are ordered by.
type VersionRelease struct {
	Version semver.Version `json:"version"`
	Release Release        `json:"release"`
}

// Compare returns -1, 0 or 1: by the precedence of the versions, which leaves out build
// metadata, and then by the releases.
func (v VersionRelease) Compare(other VersionRelease) int {
	return cmp.Or(v.Version.Compare(other.Version), v.Release.Compare(other.Release))
}

// String is the version, and behind a dash the release, if there is one.
func (v VersionRelease) String() string {
	if v.Release == "" {
		return v.Version.String()
	}
	return v.Version.String() + "-" + string(v.Release)
}

// KubernetesSafe is String in lower case with a dash for the plus of build metadata, as
// names of Kubernetes objects may have it.
func (v VersionRelease) KubernetesSafe() string {
	return strings.ToLower(strings.ReplaceAll(v.String(), "+", "-"))
}

// annotationSubstitutesFor, on a ClusterServiceVersion, names the bundle that it is a
// rebuild of. Its build metadata then is what is called a release today.
const annotationSubstitutesFor = "olm.substitutesFor"

// VersionRelease returns the version and release that the bundle's olm.package property
// states. A bundle from before there were releases, which says by an annotation of its
// ClusterServiceVersion that it is a rebuild of another, has its build metadata as
// release.
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

// isRebuild reports whether the bundle's ClusterServiceVersion says what it substitutes.
func (b *Bundle) isRebuild() bool {
	var annotated struct {
		Annotations map[string]json.RawMessage `json:"annotations"`
	}
	for _, p := range b.Properties {
		switch p.Type {
		case PropertyCSVMetadata:
			if json.Unmarshal(p.Value, &annotated) == nil && saysRebuild(annotated.Annotations) {
				return true
			}
		case PropertyBundleObject:
			object, err := decodeObject(p.Value)
			if err == nil && object.kind == kindCSV && saysRebuild(object.annotations()) {
				return true
			}
		}
	}

	return false
}

func saysRebuild(annotations map[string]json.RawMessage) bool {
	var base string
	return json.Unmarshal(annotations[annotationSubstitutesFor], &base) == nil && base != ""
}
