package indexdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	annotationSkipRange = bundle.AnnotationSkipRange
	// annotationSubstitutesFor, on a CSV, is the name of the bundle that this one is a
	// rebuild of.
	annotationSubstitutesFor = "olm.substitutesFor"
	// propertyDeprecated marks a bundle below which its package's channels were truncated.
	propertyDeprecated = "olm.deprecated"
)

// API is a kind of the Kubernetes API that a bundle provides or requires.
type API struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Plural is the plural name of its resource. It may be empty.
	Plural string `json:"plural"`
}

// Bundle is a bundle to be added to an index.
type Bundle struct {
	// Package, Name and Version identify the bundle. Version may be empty.
	Package, Name, Version string
	// Image is the reference of the bundle's image. It is empty for a bundle whose
	// manifests are stored in the index.
	Image string
	// Channels are the channels to which the bundle is added. DefaultChannel is the one
	// that its author chose as the default of the package. It may be empty.
	Channels       []string
	DefaultChannel string
	// Replaces, Skips and SkipRange are the updates to this bundle that it declares.
	Replaces  string
	Skips     []string
	SkipRange string
	// SubstitutesFor is the name of the bundle that this one is a rebuild of. It is usually
	// empty.
	SubstitutesFor string
	// CSV is the bundle's ClusterServiceVersion. Objects are all its objects, including the
	// CSV, as JSON.
	CSV     json.RawMessage
	Objects []json.RawMessage
	// Properties are the properties of the bundle, as package bundle derives them, without
	// those of Dependencies.
	Properties []fbc.Property
	// Dependencies are the dependencies that have the same type as properties, such as
	// olm.constraint. Requirements of APIs and packages are in Properties.
	Dependencies []fbc.Property
	// Provides and Requires are the APIs in Properties, with their plural names.
	Provides, Requires []API
	// RelatedImages are the images that the bundle uses, including its own: what a mirror
	// needs.
	RelatedImages []string
}

// FromBundle converts a loaded bundle to one that can be added. image is the reference of
// its image for users.
func FromBundle(b *bundle.Bundle, image string) (Bundle, error) {
	blob, err := b.FBC(image, bundle.WithMetadata)
	if err != nil {
		return Bundle{}, err
	}

	entry := b.ChannelEntry()
	added := Bundle{
		Package: b.Package, Name: b.Name(), Version: string(b.CSV.Spec.Version),
		Image:    image,
		Channels: b.Channels, DefaultChannel: b.DefaultChannel,
		Replaces: entry.Replaces, Skips: entry.Skips, SkipRange: entry.SkipRange,
		SubstitutesFor: b.CSV.Annotations[annotationSubstitutesFor],
	}
	added.Properties, added.Dependencies = separateDependencies(b)

	for _, related := range blob.RelatedImages {
		added.RelatedImages = append(added.RelatedImages, related.Image)
	}

	for _, object := range b.Manifests {
		raw, err := json.Marshal(object.Object)
		if err != nil {
			return Bundle{}, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
		}
		added.Objects = append(added.Objects, raw)
		if object.GetKind() == kindCSV {
			added.CSV = raw
		}
	}

	plurals := pluralNamesOfKinds(b)
	if added.Provides, err = apisFromProperties(b.Properties, fbc.PropertyGVK, plurals); err != nil {
		return Bundle{}, err
	}
	if added.Requires, err = apisFromProperties(b.Properties, fbc.PropertyGVKRequired, plurals); err != nil {
		return Bundle{}, err
	}

	return added, nil
}

// separateDependencies returns the properties of a bundle without those that are only
// dependencies, and these.
func separateDependencies(b *bundle.Bundle) (properties, dependencies []fbc.Property) {
	for _, d := range bundle.DistinctProperties(b.Dependencies) {
		if d.Type != fbc.PropertyGVK && d.Type != fbc.PropertyPackage {
			dependencies = append(dependencies, d)
		}
	}

	for _, p := range b.Properties {
		if !containsProperty(dependencies, p) || containsProperty(b.AuthorProperties, p) {
			properties = append(properties, p)
		}
	}

	return properties, dependencies
}

func containsProperty(list []fbc.Property, p fbc.Property) bool {
	return slices.ContainsFunc(list, func(other fbc.Property) bool { return compareProperties(other, p) == 0 })
}

// pluralNamesOfKinds returns the plural names of the kinds that a bundle defines or
// requires, by group and kind.
func pluralNamesOfKinds(b *bundle.Bundle) map[[2]string]string {
	plurals := map[[2]string]string{}
	for _, crd := range b.CRDs {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		plurals[[2]string{group, kind}] = plural
	}

	for _, crd := range b.CSV.Spec.CustomResourceDefinitions.Required {
		plural, group, _ := strings.Cut(crd.Name, ".")
		plurals[[2]string{group, crd.Kind}] = plural
	}

	services := b.CSV.Spec.APIServiceDefinitions
	for _, service := range slices.Concat(services.Owned, services.Required) {
		plurals[[2]string{service.Group, service.Kind}] = service.Name
	}

	return plurals
}

// apisFromProperties returns the APIs in the properties of a type.
func apisFromProperties(properties []fbc.Property, propertyType string, plurals map[[2]string]string) ([]API, error) {
	var apis []API
	for _, p := range properties {
		if p.Type != propertyType {
			continue
		}
		var gvk bundle.GVKProperty
		if err := json.Unmarshal(p.Value, &gvk); err != nil {
			return nil, fmt.Errorf("property %s: %w", propertyType, err)
		}
		apis = append(apis, API{gvk.Group, gvk.Version, gvk.Kind, plurals[[2]string{gvk.Group, gvk.Kind}]})
	}

	return apis, nil
}

// validateForIndex returns an error for a bundle that an index cannot store.
func (b *Bundle) validateForIndex(enableAlpha bool) error {
	switch {
	case b.Package == "":
		return errors.New("package name not found")
	case b.Name == "":
		return errors.New("csv name not found")
	case len(b.Channels) == 0:
		return errors.New("it names no channel to be added to")
	case b.SubstitutesFor != "" && !enableAlpha:
		return opmErrorf("SubstitutesFor is an alpha-only feature. A bundle that uses it can be added with --enable-alpha")
	}

	csvs := 0
	for i, object := range b.Objects {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(object, &head); err != nil {
			return fmt.Errorf("object %d: %w", i+1, err)
		}
		if head.Kind == kindCSV {
			csvs++
		}
	}

	if csvs > 1 {
		return errors.New("two csvs found in one bundle")
	}

	for _, skip := range b.Skips {
		if strings.Contains(skip, ",") { // skips are stored as a list with commas
			return fmt.Errorf("it skips %q, which is not a bundle name", skip)
		}
	}

	for _, p := range b.Properties { // as in opm, a property may have no type
		if !json.Valid(p.Value) {
			return fmt.Errorf("property %q: its value is not JSON", p.Type)
		}
	}

	return nil
}
