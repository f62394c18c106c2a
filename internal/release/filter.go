package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// DefaultProfile is the profile of a cluster that names none.
const DefaultProfile = "self-managed-high-availability"

// DefaultFeatureSet is what manifests call the feature set of a cluster that names none.
const DefaultFeatureSet = "Default"

// featureSets are those that a manifest may name.
var featureSets = sets.New(DefaultFeatureSet, "CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", "OKD")

// versionedKinds may carry AnnotationMajorVersion.
var versionedKinds = sets.New(
	schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	schema.GroupKind{Group: "config.openshift.io", Kind: "FeatureGate"},
)

// Cluster is what decides which manifests of a payload belong to a cluster, whatever its
// administrator wants of them.
type Cluster struct {
	// ExcludeIdentifier is what AnnotationExcludePrefix names. Empty means none.
	ExcludeIdentifier string
	// Profile is what AnnotationIncludePrefix names. Empty means DefaultProfile.
	Profile string
	// FeatureSet is the cluster's feature set. Empty means DefaultFeatureSet.
	FeatureSet string
	// FeatureGates are those that are on.
	FeatureGates sets.Set[string]
	// MajorVersion is that of the payload.
	MajorVersion uint64
}

// Excludes reports whether the cluster does not have the manifest, and why, in a sentence
// without a subject.
func (c Cluster) Excludes(m Manifest) (reason string, excluded bool) {
	annotations := m.Object.GetAnnotations()
	if len(annotations) == 0 {
		return "has no annotations, so that it belongs to no profile", true
	}
	if c.ExcludeIdentifier != "" && annotations[AnnotationExcludePrefix+c.ExcludeIdentifier] == enabled {
		return fmt.Sprintf("is excluded by %s%s", AnnotationExcludePrefix, c.ExcludeIdentifier), true
	}

	for _, reason := range []string{c.byFeatureSet(annotations), c.byFeatureGates(annotations), c.byMajorVersion(m, annotations), c.byProfile(annotations)} {
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

func (c Cluster) byFeatureSet(annotations map[string]string) (reason string) {
	value, ok := annotations[AnnotationFeatureSet]
	if !ok {
		return ""
	}
	if _, both := annotations[AnnotationFeatureGate]; both {
		return fmt.Sprintf("has %s and %s, which exclude each other", AnnotationFeatureSet, AnnotationFeatureGate)
	}

	wanted := list(value)
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

func (c Cluster) byFeatureGates(annotations map[string]string) (reason string) {
	for _, gate := range list(annotations[AnnotationFeatureGate]) {
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

func (c Cluster) byMajorVersion(m Manifest, annotations map[string]string) (reason string) {
	value, ok := annotations[AnnotationMajorVersion]
	if !ok {
		return ""
	}
	if kind := m.Object.GroupVersionKind().GroupKind(); !versionedKinds.Has(kind) {
		return fmt.Sprintf("has %s, which a %s may not have", AnnotationMajorVersion, kind)
	}

	in, out := sets.Set[uint64]{}, sets.Set[uint64]{}
	for _, item := range list(value) {
		digits, negated := strings.CutPrefix(item, "-")
		major, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case err != nil:
			return fmt.Sprintf("has %q in %s, which is no number", item, AnnotationMajorVersion)
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

func (c Cluster) byProfile(annotations map[string]string) (reason string) {
	profile := c.Profile
	if profile == "" {
		profile = DefaultProfile
	}
	if annotations[AnnotationIncludePrefix+profile] != enabled {
		return fmt.Sprintf("does not belong to the profile %q", profile)
	}
	return ""
}

// Override is what an administrator wants of an object of the release.
type Override struct {
	// Key names the object.
	Key
	// Unmanaged leaves the object to the administrator.
	Unmanaged bool
}

// Overridden reports whether the manifest is left to the administrator.
func Overridden(m Manifest, overrides []Override) bool {
	return slices.Contains(overrides, Override{Key: m.Key(), Unmanaged: true})
}
