package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// AnnotationProperties is the annotation of a CSV with properties as a JSON list, their older location.
const AnnotationProperties = "olm.properties"

// Types of dependencies.yaml that have another name as a property. Every other type keeps
// its name.
const (
	dependencyGVK     = "olm.gvk"
	dependencyPackage = "olm.package"
)

// GVKProperty is the value of an olm.gvk or olm.gvk.required property: an API that a bundle
// provides or requires.
type GVKProperty struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// PackageRequiredProperty is the value of an olm.package.required property.
type PackageRequiredProperty struct {
	PackageName string `json:"packageName"`
	// VersionRange is a range of versions in the syntax of github.com/blang/semver.
	VersionRange string `json:"versionRange"`
}

// deriveProperties sets b.AuthorProperties and b.Properties. Only one olm.package property
// is kept. The one in the CSV's annotation takes precedence over the one derived from the
// CSV, and that over the one in properties.yaml.
func (b *Bundle) deriveProperties(stated, needed []fbc.Property) error {
	spec := b.CSV.Spec
	annotated := b.parseAnnotationProperties()
	b.AuthorProperties = DistinctProperties(annotated, stated)

	set := propertySet{}
	set.add(stated...)
	set.addValue(fbc.PropertyPackage, fbc.PackageProperty{
		PackageName: b.Package,
		Version:     string(spec.Version),
		Release:     string(spec.Release),
	})
	set.add(annotated...)
	set.add(needed...)
	for _, crd := range b.listCatalogCRDs() {
		for _, gvk := range gvksOfCRD(crd) {
			set.addValue(fbc.PropertyGVK, gvk)
		}
	}

	for _, api := range spec.APIServiceDefinitions.Owned {
		set.addValue(fbc.PropertyGVK, GVKProperty{api.Group, api.Kind, api.Version})
	}

	for _, api := range spec.APIServiceDefinitions.Required {
		set.addValue(fbc.PropertyGVKRequired, GVKProperty{api.Group, api.Kind, api.Version})
	}

	for _, crd := range spec.CustomResourceDefinitions.Required {
		_, group, err := splitCRDName(crd.Name)
		if err != nil {
			return fmt.Errorf("ClusterServiceVersion %q: required CRD: %w", b.CSV.Name, err)
		}
		set.addValue(fbc.PropertyGVKRequired, GVKProperty{group, crd.Kind, crd.Version})
	}

	b.Properties = set.sortedProperties()
	return nil
}

// parseAnnotationProperties returns the properties in the CSV's annotation. An invalid
// annotation becomes a warning, because catalogs have always accepted such bundles.
func (b *Bundle) parseAnnotationProperties() []fbc.Property {
	text := b.CSV.Annotations[AnnotationProperties]
	if text == "" {
		return nil
	}

	var properties []fbc.Property
	err := json.Unmarshal([]byte(text), &properties)
	for i := 0; err == nil && i < len(properties); i++ {
		err = checkKnownProperty(properties[i])
	}

	if err != nil {
		b.addWarning("ClusterServiceVersion %q: annotation %s is ignored: %v", b.CSV.Name, AnnotationProperties, err)
		return nil
	}

	return properties
}

// gvksOfCRD returns the APIs of a CRD: one for each of its versions.
func gvksOfCRD(crd unstructured.Unstructured) []GVKProperty {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var gvks []GVKProperty
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); name != "" {
			gvks = append(gvks, GVKProperty{group, kind, name})
		}
	}

	if len(gvks) == 0 { // v1beta1 has a short form for a single version
		if name, _, _ := unstructured.NestedString(crd.Object, "spec", "version"); name != "" {
			gvks = append(gvks, GVKProperty{group, kind, name})
		}
	}

	return gvks
}

// packageDependency is the value of a dependency on a package.
type packageDependency struct {
	PackageName string `json:"packageName"`
	Version     string `json:"version"`
}

// PropertyOfDependency returns the property for a dependency in the format of dependencies.yaml.
// Only dependencies on APIs and packages have a format of their own.
func PropertyOfDependency(dependency fbc.Property) (fbc.Property, error) {
	switch dependency.Type {
	case dependencyGVK:
		var value GVKProperty
		if err := json.Unmarshal(dependency.Value, &value); err != nil {
			return fbc.Property{}, err
		}
		return newProperty(fbc.PropertyGVKRequired, value), nil
	case dependencyPackage:
		var value packageDependency
		if err := json.Unmarshal(dependency.Value, &value); err != nil {
			return fbc.Property{}, err
		}
		return newProperty(fbc.PropertyPackageRequired, PackageRequiredProperty{value.PackageName, value.Version}), nil
	default:
		return dependency, nil
	}
}

// checkKnownProperty returns an error for a property of a known type with an invalid value.
// Properties of other types, or without a type, may have any value.
func checkKnownProperty(p fbc.Property) error {
	switch p.Type {
	case fbc.PropertyPackage:
		return json.Unmarshal(p.Value, &fbc.PackageProperty{})
	case fbc.PropertyGVK, fbc.PropertyGVKRequired:
		return json.Unmarshal(p.Value, &GVKProperty{})
	case fbc.PropertyPackageRequired:
		return json.Unmarshal(p.Value, &PackageRequiredProperty{})
	}

	return nil
}

// newProperty returns a property. The value contains only strings, so that encoding cannot
// fail.
func newProperty(propertyType string, value any) fbc.Property {
	raw, err := encodeCompact(value)
	if err != nil {
		raw = json.RawMessage("null")
	}
	return fbc.Property{Type: propertyType, Value: raw}
}

// encodeCompact returns compact JSON without escapes for <, > and &.
func encodeCompact(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// DistinctProperties returns the properties of all lists in their order, each once.
func DistinctProperties(lists ...[]fbc.Property) []fbc.Property {
	var result []fbc.Property
	for _, p := range slices.Concat(lists...) {
		p = canonicalProperty(p)
		known := func(other fbc.Property) bool { return other.Type == p.Type && bytes.Equal(other.Value, p.Value) }
		if !slices.ContainsFunc(result, known) {
			result = append(result, p)
		}
	}

	return result
}

// propertySet has properties, each once, and a single olm.package property.
type propertySet struct {
	items           []fbc.Property
	packageProperty *fbc.Property
}

func (s *propertySet) add(properties ...fbc.Property) {
	for _, p := range properties {
		p = canonicalProperty(p)
		if p.Type == fbc.PropertyPackage {
			s.packageProperty = &p
			continue
		}
		s.items = append(s.items, p)
	}
}

func (s *propertySet) addValue(propertyType string, value any) {
	s.add(newProperty(propertyType, value))
}

func (s *propertySet) sortedProperties() []fbc.Property {
	items := s.items
	if s.packageProperty != nil {
		items = append(items, *s.packageProperty)
	}

	slices.SortFunc(items, func(a, b fbc.Property) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
	})
	return slices.CompactFunc(items, func(a, b fbc.Property) bool {
		return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
	})
}

// canonicalProperty returns a property in a canonical encoding, so that equal properties
// have equal bytes: compact, with the fields of a known type in their order.
func canonicalProperty(p fbc.Property) fbc.Property {
	switch p.Type {
	case fbc.PropertyPackage:
		var value fbc.PackageProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return newProperty(p.Type, value)
		}
	case fbc.PropertyGVK, fbc.PropertyGVKRequired:
		var value GVKProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return newProperty(p.Type, value)
		}
	case fbc.PropertyPackageRequired:
		var value PackageRequiredProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return newProperty(p.Type, value)
		}
	}

	if len(p.Value) == 0 {
		p.Value = json.RawMessage("null")
	}

	var buffer bytes.Buffer
	if json.Compact(&buffer, p.Value) == nil {
		p.Value = buffer.Bytes()
	}

	return p
}
