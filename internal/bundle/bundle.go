// Package bundle reads registry+v1 bundles. A bundle is one version of a package: a
// directory of manifests and metadata, as in a bundle image. The package defines what a
// bundle is, what it provides and what it requires. It describes a bundle for a catalog,
// and generates the files that turn a folder of manifests into a bundle.
//
// Load is the only loader. Catalogs, registries and installations read a bundle through it,
// so that they agree on what a bundle is. It is lenient, like existing tools, and reports
// what it leaves out. FBC rejects what a catalog cannot describe, internal/render rejects
// what cannot be installed, and package validate reports what an author should fix.
//
// The package has no side effects: it reads an fs.FS and returns values. Package
// internal/image pulls images, and internal/render creates the objects for a cluster.
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

// AnnotationSkipRange is the annotation of a ClusterServiceVersion with a range of versions: every
// bundle of the package with a version in the range can be updated to this one.
const AnnotationSkipRange = "olm.skipRange"

// Bundle is one version of a package.
type Bundle struct {
	// Package is the name of the package. Never empty.
	Package string
	// Channels are the channels that the author assigns to the bundle. A file-based catalog
	// defines its channels itself and does not read them.
	Channels []string
	// DefaultChannel is the author's default channel of the package. It may be empty.
	DefaultChannel string
	// Version is the version of the CSV. It is 0.0.0 if the CSV has none, or one that is
	// not a semantic version.
	Version semver.Version
	// CSV is the bundle's ClusterServiceVersion. Its name is the bundle's name.
	CSV v1alpha1.ClusterServiceVersion
	// CRDs are the CRDs of all documents, of any API version, as written.
	CRDs []unstructured.Unstructured
	// Objects are all other objects of all documents, as written. A List is replaced by its
	// items.
	Objects []unstructured.Unstructured
	// AuthorProperties are the properties that the author wrote: in the CSV's annotation
	// AnnotationProperties, then in the metadata folder, each once.
	AuthorProperties []fbc.Property
	// Properties describe what the bundle is, provides and requires: those that the author
	// wrote and those derived from its content, each once, sorted by type and value. They
	// do not include olm.csv.metadata, which FBC adds.
	Properties []fbc.Property
	// Dependencies are the dependencies of the metadata folder in their own format, in which
	// SQLite catalogs store them. Properties has their properties.
	Dependencies []fbc.Property
	// Manifests are the manifests that catalogs contain, as written: the object of the
	// first document of each file, the CSV last. They share memory with CRDs and Objects.
	Manifests []unstructured.Unstructured
	// Warnings describe what was ignored because it is invalid, although the bundle can be
	// used without it.
	Warnings []string
	// Omitted describes the content that could not be loaded, each with the reason. A
	// catalog lists a bundle without that content. An installation without it would be
	// incomplete.
	Omitted []string
}

// addWarning adds a formatted warning.
func (b *Bundle) addWarning(format string, args ...any) {
	b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...))
}

// addOmission records content that could not be loaded and that catalogs do not read.
func (b *Bundle) addOmission(format string, args ...any) {
	b.Omitted = append(b.Omitted, fmt.Sprintf(format, args...))
}

// addOmissionWithWarning records content that could not be loaded and that catalogs lack,
// too.
func (b *Bundle) addOmissionWithWarning(format string, args ...any) {
	b.addOmission(format, args...)
	b.addWarning("%s: it is ignored", fmt.Sprintf(format, args...))
}

// Name returns the name of the bundle, which is that of its CSV.
func (b *Bundle) Name() string { return b.CSV.Name }

// StatedVersion returns the version of the bundle's olm.package property, which may be any
// text.
func (b *Bundle) StatedVersion() string {
	for _, p := range b.Properties {
		var value fbc.PackageProperty
		if p.Type == fbc.PropertyPackage && json.Unmarshal(p.Value, &value) == nil {
			return value.Version
		}
	}
	return ""
}

// InstallModes returns the supported install modes, sorted, each once.
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

// ChannelEntry returns the bundle's entry in a channel, with the edges of the update graph
// that its author defined.
func (b *Bundle) ChannelEntry() fbc.ChannelEntry {
	return fbc.ChannelEntry{
		Name:      b.Name(),
		Replaces:  b.CSV.Spec.Replaces,
		Skips:     b.CSV.Spec.Skips,
		SkipRange: b.CSV.Annotations[AnnotationSkipRange],
	}
}
