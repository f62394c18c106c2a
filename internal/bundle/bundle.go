// Package bundle reads registry+v1 bundles: one version of a package as a directory
// of manifests and metadata, as a bundle image holds it. It says what a bundle is,
// what it provides and what it needs, and describes it for a catalog.
//
// It is pure: it reads an fs.FS and gives back values. Getting the image is
// internal/image's job, making objects for a cluster internal/render's. It does not
// judge whether a bundle can be installed; it refuses only what it cannot read.
package bundle

import (
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// AnnotationSkipRange, on a ClusterServiceVersion, is a range of versions: every
// bundle of the package whose version lies in it can be updated to this one.
const AnnotationSkipRange = "olm.skipRange"

// Bundle is one version of a package.
type Bundle struct {
	// Package is the name of the package. Never empty.
	Package string
	// Channels are the channels that the author places the bundle in. A file-based
	// catalog decides that itself and does not read them.
	Channels []string
	// DefaultChannel is the author's default channel of the package. It may be empty.
	DefaultChannel string
	// Version is the version that the CSV states.
	Version semver.Version
	// CSV is the bundle's only ClusterServiceVersion. Its name is the bundle's name.
	CSV v1alpha1.ClusterServiceVersion
	// CRDs are the bundle's CustomResourceDefinitions, of any API version, as written.
	CRDs []unstructured.Unstructured
	// Objects are all other objects of the bundle, as written.
	Objects []unstructured.Unstructured
	// Properties say what the bundle is, provides and needs: those that the author
	// states and those that follow from its content, each once, sorted by type and
	// value. olm.csv.metadata is not among them; FBC adds it.
	Properties []fbc.Property
	// Warnings name what was passed over because it could not be understood, though the
	// bundle can be used without it.
	Warnings []string
}

// Name is the bundle's name, that of its CSV.
func (b *Bundle) Name() string { return b.CSV.Name }

// InstallModes are the install modes that the bundle supports, sorted, each once.
func (b *Bundle) InstallModes() []v1alpha1.InstallModeType {
	modes := []v1alpha1.InstallModeType{}
	for _, m := range b.CSV.Spec.InstallModes {
		if m.Supported {
			modes = append(modes, m.Type)
		}
	}
	slices.Sort(modes)
	return slices.Compact(modes)
}

// ChannelEntry is the bundle's entry in a channel, with the edges of the update graph
// that its author states.
func (b *Bundle) ChannelEntry() fbc.ChannelEntry {
	return fbc.ChannelEntry{
		Name:      b.Name(),
		Replaces:  b.CSV.Spec.Replaces,
		Skips:     b.CSV.Spec.Skips,
		SkipRange: b.CSV.Annotations[AnnotationSkipRange],
	}
}
