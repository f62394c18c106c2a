// Package bundle reads registry+v1 bundles: one version of a package as a directory
// of manifests and metadata, as a bundle image holds it. It says what a bundle is,
// what it provides and what it needs, describes it for a catalog, and writes the texts
// that make a bundle of a folder of manifests.
//
// Load is the only loader: catalogs, registries and installations read a bundle through it,
// so that they agree on what is a bundle. It is lenient, as the tools of the field are, and
// reports what it leaves out. What a catalog cannot describe is refused by FBC, what cannot
// be installed by internal/render, and what an author should mend is reported by the
// package validate below this one.
//
// It is pure: it reads an fs.FS and gives back values. Getting the image is
// internal/image's job, making objects for a cluster internal/render's, and telling an
// author everything that is wrong that of the package validate below it.
package bundle

import (
	"encoding/json"
	"fmt"
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
	// Version is the version that the CSV states. It is 0.0.0 for a CSV that states none,
	// or a text that is not a semantic version.
	Version semver.Version
	// CSV is the bundle's ClusterServiceVersion. Its name is the bundle's name.
	CSV v1alpha1.ClusterServiceVersion
	// CRDs are the CustomResourceDefinitions of all documents, of any API version, as written.
	CRDs []unstructured.Unstructured
	// Objects are all other objects of all documents, as written. The items of a List stand
	// for themselves.
	Objects []unstructured.Unstructured
	// StatedProperties are the properties that the author states: in the CSV's annotation
	// AnnotationProperties, then in the metadata folder, each once.
	StatedProperties []fbc.Property
	// Properties say what the bundle is, provides and needs: those that the author
	// states and those that follow from its content, each once, sorted by type and
	// value. olm.csv.metadata is not among them; FBC adds it.
	Properties []fbc.Property
	// Manifests are what catalogs carry of the bundle, as written: the object of the first
	// document of each file, the CSV last. They share memory with CRDs and Objects.
	Manifests []unstructured.Unstructured
	// Warnings name what was passed over because it could not be understood, though the
	// bundle can be used without it.
	Warnings []string
	// Omitted names the content that could not be loaded, each with the reason. A catalog
	// lists a bundle without that content, as it always has; an installation without it
	// would be incomplete.
	Omitted []string
}

func (b *Bundle) warn(format string, args ...any) {
	b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...))
}

// omit records content that could not be loaded and that catalogs do not look at.
func (b *Bundle) omit(format string, args ...any) {
	b.Omitted = append(b.Omitted, fmt.Sprintf(format, args...))
}

// omitWithWarning records content that could not be loaded and is missing in catalogs too.
func (b *Bundle) omitWithWarning(format string, args ...any) {
	b.omit(format, args...)
	b.warn("%s: it is passed over", fmt.Sprintf(format, args...))
}

// Name is the bundle's name, that of its CSV.
func (b *Bundle) Name() string { return b.CSV.Name }

// StatedVersion is the version that the bundle's olm.package property states, which may be
// any text.
func (b *Bundle) StatedVersion() string {
	for _, p := range b.Properties {
		var value fbc.PackageProperty
		if p.Type == fbc.PropertyPackage && json.Unmarshal(p.Value, &value) == nil {
			return value.Version
		}
	}
	return ""
}

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
