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

// AnnotationProperties, on a CSV, is an older place for properties: a JSON list.
const AnnotationProperties = "olm.properties"

// Types of dependencies.yaml that have another name as a property. Every other type
// keeps its name.
const (
	dependencyGVK     = "olm.gvk"
	dependencyPackage = "olm.package"
)

// GVKProperty is the value of an olm.gvk or olm.gvk.required property: an API that a
// bundle provides or needs.
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

// deriveProperties sets b.StatedProperties, and b.Properties from what the author states
// and what follows from the content. Of several olm.package properties the last counts: one in
// properties.yaml gives way to the one that follows from the CSV, and that to one in
// the CSV's annotation.
func (b *Bundle) deriveProperties(stated, needed []fbc.Property) error {
	spec := b.CSV.Spec
	annotated := b.annotationProperties()
	b.StatedProperties = distinct(annotated, stated)

	set := propertySet{}
	set.add(stated...)
	set.addValue(fbc.PropertyPackage, fbc.PackageProperty{
		PackageName: b.Package,
		Version:     string(spec.Version),
		Release:     string(spec.Release),
	})
	set.add(annotated...)
	set.add(needed...)
	for _, crd := range b.catalogCRDs() {
		for _, gvk := range crdGVKs(crd) {
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

	b.Properties = set.sorted()
	return nil
}

// annotationProperties reads the properties in the CSV's annotation. What cannot be
// read becomes a warning: catalogs have always taken such bundles.
func (b *Bundle) annotationProperties() []fbc.Property {
	text := b.CSV.Annotations[AnnotationProperties]
	if text == "" {
		return nil
	}

	var properties []fbc.Property
	err := json.Unmarshal([]byte(text), &properties)
	for i := 0; err == nil && i < len(properties); i++ {
		err = checkKnown(properties[i])
	}

	if err != nil {
		b.warn("ClusterServiceVersion %q: annotation %s is passed over: %v", b.CSV.Name, AnnotationProperties, err)
		return nil
	}

	return properties
}

// crdGVKs are the APIs of a CRD: one for each of its versions.
func crdGVKs(crd unstructured.Unstructured) []GVKProperty {
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

// dependencyProperty is the property that states a dependency.
func dependencyProperty(dependency fbc.Property) (fbc.Property, error) {
	switch dependency.Type {
	case dependencyGVK:
		var value GVKProperty
		if err := json.Unmarshal(dependency.Value, &value); err != nil {
			return fbc.Property{}, err
		}
		return property(fbc.PropertyGVKRequired, value), nil
	case dependencyPackage:
		var value packageDependency
		if err := json.Unmarshal(dependency.Value, &value); err != nil {
			return fbc.Property{}, err
		}
		return property(fbc.PropertyPackageRequired, PackageRequiredProperty{value.PackageName, value.Version}), nil
	default:
		return dependency, nil
	}
}

// checkKnown returns an error for a property of a type that this package knows and whose
// value cannot be understood. Properties of other types, or of none, may have any value.
func checkKnown(p fbc.Property) error {
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

// property makes a property of a value that holds nothing but strings, so that it
// cannot fail to encode.
func property(propertyType string, value any) fbc.Property {
	raw, err := encode(value)
	if err != nil {
		raw = json.RawMessage("null")
	}
	return fbc.Property{Type: propertyType, Value: raw}
}

// encode returns compact JSON in which <, > and & stand for themselves.
func encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// distinct returns the properties of all lists in their order, each once.
func distinct(lists ...[]fbc.Property) []fbc.Property {
	var result []fbc.Property
	for _, p := range slices.Concat(lists...) {
		p = canonical(p)
		known := func(other fbc.Property) bool { return other.Type == p.Type && bytes.Equal(other.Value, p.Value) }
		if !slices.ContainsFunc(result, known) {
			result = append(result, p)
		}
	}

	return result
}

// propertySet holds properties, each once, and a single olm.package.
type propertySet struct {
	items []fbc.Property
	last  *fbc.Property
}

func (s *propertySet) add(properties ...fbc.Property) {
	for _, p := range properties {
		p = canonical(p)
		if p.Type == fbc.PropertyPackage {
			s.last = &p
			continue
		}
		s.items = append(s.items, p)
	}
}

func (s *propertySet) addValue(propertyType string, value any) {
	s.add(property(propertyType, value))
}

func (s *propertySet) sorted() []fbc.Property {
	items := s.items
	if s.last != nil {
		items = append(items, *s.last)
	}

	slices.SortFunc(items, func(a, b fbc.Property) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
	})
	return slices.CompactFunc(items, func(a, b fbc.Property) bool {
		return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
	})
}

// canonical writes a property in one way, so that equal ones are equal bytes: compact,
// and the fields of a known type in their order.
func canonical(p fbc.Property) fbc.Property {
	switch p.Type {
	case fbc.PropertyPackage:
		var value fbc.PackageProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return property(p.Type, value)
		}
	case fbc.PropertyGVK, fbc.PropertyGVKRequired:
		var value GVKProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return property(p.Type, value)
		}
	case fbc.PropertyPackageRequired:
		var value PackageRequiredProperty
		if json.Unmarshal(p.Value, &value) == nil {
			return property(p.Type, value)
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
