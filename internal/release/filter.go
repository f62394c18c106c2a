package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// DefaultProfile is the profile of clusters that name none.
const DefaultProfile = "self-managed-high-availability"

// DefaultFeatureSet is the name of the default feature set in manifests.
const DefaultFeatureSet = "Default"

// featureSets are the feature sets that a manifest may name.
var featureSets = sets.New(DefaultFeatureSet, "CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", "OKD")

// versionedKinds are the kinds that may have AnnotationMajorVersion.
var versionedKinds = sets.New(
	schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	schema.GroupKind{Group: "config.openshift.io", Kind: "FeatureGate"},
)

// Cluster contains the properties of a cluster that select the manifests of a payload,
// independent of the administrator's settings.
type Cluster struct {
	// ExcludeIdentifier is an identifier for AnnotationExcludePrefix. It may be empty.
	ExcludeIdentifier string
	// Profile is the profile for AnnotationIncludePrefix. Empty means DefaultProfile.
	Profile string
	// FeatureSet is the cluster's feature set. Empty means DefaultFeatureSet.
	FeatureSet string
	// FeatureGates are the enabled feature gates.
	FeatureGates sets.Set[string]
	// MajorVersion is the major version of the payload.
	MajorVersion uint64
}

// Excludes reports whether the manifest does not belong to the cluster, and why, as a sentence
// without a subject.
func (c Cluster) Excludes(m Manifest) (reason string, excluded bool) {
	annotations := m.Object.GetAnnotations()
	if len(annotations) == 0 {
		return "has no annotations, so that it belongs to no profile", true
	}
	if c.ExcludeIdentifier != "" && annotations[AnnotationExcludePrefix+c.ExcludeIdentifier] == enabled {
		return fmt.Sprintf("is excluded by %s%s", AnnotationExcludePrefix, c.ExcludeIdentifier), true
	}

	for _, reason := range []string{c.excludedByFeatureSet(annotations), c.excludedByFeatureGates(annotations), c.excludedByMajorVersion(m, annotations), c.excludedByProfile(annotations)} {
		if reason != "" {
			return reason, true
		}
	}

	return "", false
}

// Select returns the manifests that belong to the cluster, in their order.
func (c Cluster) Select(manifests []Manifest) []Manifest {
	var selected []Manifest
	for _, m := range manifests {
		if _, excluded := c.Excludes(m); !excluded {
			selected = append(selected, m)
		}
	}
	return selected
}

func (c Cluster) excludedByFeatureSet(annotations map[string]string) (reason string) {
	value, ok := annotations[AnnotationFeatureSet]
	if !ok {
		return ""
	}
	if _, both := annotations[AnnotationFeatureGate]; both {
		return fmt.Sprintf("has %s and %s, which exclude each other", AnnotationFeatureSet, AnnotationFeatureGate)
	}

	wanted := splitCommaList(value)
	if i := slices.IndexFunc(wanted, func(set string) bool { return !featureSets.Has(set) }); i >= 0 {
		return fmt.Sprintf("names the feature set %q in %s, which is not known", wanted[i], AnnotationFeatureSet)
	}

	set := c.FeatureSet
	if set == "" {
		set = DefaultFeatureSet
	}
	if !slices.Contains(wanted, set) {
		return fmt.Sprintf("belongs to the feature sets %q, not to %q", value, set)
	}

	return ""
}

func (c Cluster) excludedByFeatureGates(annotations map[string]string) (reason string) {
	for _, gate := range splitCommaList(annotations[AnnotationFeatureGate]) {
		name, off := strings.CutPrefix(gate, "-")
		switch on := c.FeatureGates.Has(name); {
		case off && on:
			return fmt.Sprintf("needs feature gate %q to be off", name)
		case !off && !on:
			return fmt.Sprintf("needs feature gate %q to be on", name)
		}
	}

	return ""
}

func (c Cluster) excludedByMajorVersion(m Manifest, annotations map[string]string) (reason string) {
	value, ok := annotations[AnnotationMajorVersion]
	if !ok {
		return ""
	}
	if kind := m.Object.GroupVersionKind().GroupKind(); !versionedKinds.Has(kind) {
		return fmt.Sprintf("has %s, which a %s may not have", AnnotationMajorVersion, kind)
	}

	in, out := sets.Set[uint64]{}, sets.Set[uint64]{}
	for _, item := range splitCommaList(value) {
		digits, negated := strings.CutPrefix(item, "-")
		major, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case err != nil:
			return fmt.Sprintf("has %q in %s, which is not a number", item, AnnotationMajorVersion)
		case negated:
			out.Insert(major)
		default:
			in.Insert(major)
		}
	}

	switch {
	case in.HasAny(out.UnsortedList()...):
		return fmt.Sprintf("has a number with and without a dash in %s", AnnotationMajorVersion)
	case out.Has(c.MajorVersion), in.Len() > 0 && !in.Has(c.MajorVersion):
		return fmt.Sprintf("belongs to the major versions %q, not to %d", value, c.MajorVersion)
	}

	return ""
}

func (c Cluster) excludedByProfile(annotations map[string]string) (reason string) {
	profile := c.Profile
	if profile == "" {
		profile = DefaultProfile
	}
	if annotations[AnnotationIncludePrefix+profile] != enabled {
		return fmt.Sprintf("does not belong to the profile %q", profile)
	}
	return ""
}

// Override is an administrator's override for an object of the release.
type Override struct {
	// Key names the object.
	Key
	// Unmanaged is true if the administrator manages the object.
	Unmanaged bool
}

// Overridden reports whether the administrator manages the object of the manifest.
func Overridden(m Manifest, overrides []Override) bool {
	return slices.Contains(overrides, Override{Key: m.Key(), Unmanaged: true})
}
