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
	// annotationSubstitutesFor, on a CSV, names the bundle that this one is a rebuild of.
	annotationSubstitutesFor = "olm.substitutesFor"
	// propertyDeprecated marks a bundle below which its package's channels were cut off.
	propertyDeprecated = "olm.deprecated"
)

// API is a kind of the Kubernetes API that a bundle provides or needs.
type API struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Plural is the name of its resource. It may be empty.
	Plural string `json:"plural"`
}

// Bundle is a bundle to be added to an index.
type Bundle struct {
	// Package, Name and Version say which bundle it is. Version may be empty.
	Package, Name, Version string
	// Image is the reference of the bundle's image. It is empty for a bundle that is to be
	// in the index as a whole.
	Image string
	// Channels are those that the bundle is added to, and DefaultChannel the one that its
	// author wants to be the package's default; it may be empty.
	Channels       []string
	DefaultChannel string
	// Replaces, Skips and SkipRange are the updates that the bundle declares to be.
	Replaces  string
	Skips     []string
	SkipRange string
	// SubstitutesFor names the bundle that this one is a rebuild of. Usually empty.
	SubstitutesFor string
	// CSV is the bundle's ClusterServiceVersion, and Objects are all its objects, the CSV
	// among them, as JSON.
	CSV     json.RawMessage
	Objects []json.RawMessage
	// Properties are what the bundle says of itself, as package bundle derives it.
	Properties []fbc.Property
	// Provides and Requires are the APIs that Properties tell of, with their plurals.
	Provides, Requires []API
	// RelatedImages are the images that the bundle runs, and its own: what a mirror needs.
	RelatedImages []string
}

// FromBundle returns a loaded bundle as one to be added. image is the reference of its
// image as users are to pull it.
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
		Properties:     b.Properties,
	}

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

	plurals := pluralsOf(b)
	if added.Provides, err = apisOf(b.Properties, fbc.PropertyGVK, plurals); err != nil {
		return Bundle{}, err
	}
	if added.Requires, err = apisOf(b.Properties, fbc.PropertyGVKRequired, plurals); err != nil {
		return Bundle{}, err
	}

	return added, nil
}

// pluralsOf returns the plural names of the kinds that a bundle tells of, by group and kind.
func pluralsOf(b *bundle.Bundle) map[[2]string]string {
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

// apisOf returns the APIs that the properties of a type tell of.
func apisOf(properties []fbc.Property, propertyType string, plurals map[[2]string]string) ([]API, error) {
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

// check refuses a bundle that cannot be a row of an index.
func (b *Bundle) check(enableAlpha bool) error {
	switch {
	case b.Package == "":
		return errors.New("package name not found")
	case b.Name == "":
		return errors.New("csv name not found")
	case len(b.Channels) == 0:
		return errors.New("it names no channel to be added to")
	case b.SubstitutesFor != "" && !enableAlpha:
		return say("SubstitutesFor is an alpha-only feature. A bundle that uses it can be added with --enable-alpha")
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
		if strings.Contains(skip, ",") { // they are stored as a list with commas
			return fmt.Errorf("it skips %q, which is no name of a bundle", skip)
		}
	}

	for _, p := range b.Properties {
		if p.Type == "" || !json.Valid(p.Value) {
			return fmt.Errorf("property %q: its value is not JSON", p.Type)
		}
	}

	return nil
}
