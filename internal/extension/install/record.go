package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

const (
	// maxRequires and maxProvides bound what is recorded on a revision, in bytes of
	// JSON. All annotations of an object together have at most 256 KiB.
	maxRequires = 96 << 10
	maxProvides = 64 << 10
	// maxStated bounds the properties that the author states, in the same way.
	maxStated = 32 << 10
)

// dependencyBundle is the chosen bundle as others see it, by the properties that the
// catalog and the image state.
func dependencyBundle(pkg string, chosen selection, inImage []fbc.Property) (*dependency.Bundle, error) {
	version, err := semver.Parse(chosen.Version)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: version %q: %w", chosen.Name, chosen.Version, err)
	}
	b := dependency.NewBundle(chosen.Name, pkg, version, uniteProperties(chosen.properties, inImage))
	b.Catalog = chosen.catalog
	return b, nil
}

// uniteProperties returns the properties of both lists that have to do with dependencies,
// each once.
func uniteProperties(lists ...[]fbc.Property) []fbc.Property {
	var all []fbc.Property
	for _, p := range slices.Concat(lists...) {
		switch p.Type {
		case fbc.PropertyCSVMetadata, fbc.PropertyBundleObject:
			continue
		}
		p.Value = compact(p.Value)
		known := func(other fbc.Property) bool { return other.Type == p.Type && bytes.Equal(other.Value, p.Value) }
		if !slices.ContainsFunc(all, known) {
			all = append(all, p)
		}
	}

	return all
}

// compact writes a value in one form: the fields of objects in their order by name.
func compact(value json.RawMessage) json.RawMessage {
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		return value
	}

	encoded, err := json.Marshal(decoded)
	if err != nil {
		return value
	}

	return encoded
}

// record returns the annotations that say of a revision what others can depend on, and what
// it depends on. A bundle that others can only depend on by its package, and that needs
// nothing, has none.
func record(b *dependency.Bundle) (map[string]string, error) {
	var provides, requires []fbc.Property
	for _, p := range b.Properties {
		switch {
		case dependency.IsRequirement(p.Type):
			requires = append(requires, p)
		case p.Type != fbc.PropertyPackage:
			provides = append(provides, p)
		}
	}

	annotations := map[string]string{}
	if len(requires) > 0 {
		encoded, err := json.Marshal(requires)
		if err != nil {
			return nil, fmt.Errorf("bundle %q: its requirements: %w", b.Name, err)
		}
		if len(encoded) > maxRequires {
			return nil, fmt.Errorf("bundle %q: its requirements have %d bytes: at most %d can be recorded", b.Name, len(encoded), maxRequires)
		}
		annotations[olmv1.AnnotationRequires] = string(encoded)
	}

	if encoded := fitting(provides); encoded != "" {
		annotations[olmv1.AnnotationProvides] = encoded
	}

	return annotations, nil
}

// recordStatedProperties adds the properties that the author of a bundle states to the
// annotations of its revision, as the CSV's annotation of the same name has them: tools that
// decide about the cluster's own update read them there. It reports false, and adds nothing,
// when they are too large.
func recordStatedProperties(annotations map[string]string, stated []fbc.Property) bool {
	if len(stated) == 0 {
		return true
	}

	encoded, err := json.Marshal(stated)
	if err != nil || len(encoded) > maxStated {
		return false
	}

	annotations[bundle.AnnotationProperties] = string(encoded)
	return true
}

// fitting encodes as many properties as may be recorded: APIs first, then the shortest.
func fitting(properties []fbc.Property) string {
	slices.SortStableFunc(properties, func(a, b fbc.Property) int {
		if (a.Type == fbc.PropertyGVK) != (b.Type == fbc.PropertyGVK) {
			if a.Type == fbc.PropertyGVK {
				return -1
			}
			return 1
		}
		return len(a.Value) - len(b.Value)
	})

	size := 2
	for i, p := range properties {
		if size += len(p.Type) + len(p.Value) + len(`{"type":"","value":},`); size > maxProvides {
			properties = properties[:i]
			break
		}
	}

	if len(properties) == 0 {
		return ""
	}

	encoded, err := json.Marshal(properties)
	if err != nil {
		return "" // Values that were read as JSON always encode.
	}

	return string(encoded)
}

// installedBundleOf reads back what was recorded on a revision; nil when there is none,
// or none of ours. What cannot be read counts as not there.
func installedBundleOf(set *olmv1.ClusterObjectSet) *dependency.Bundle {
	if set == nil {
		return nil
	}

	version, err := semver.Parse(set.Annotations[olmv1.AnnotationBundleVersion])
	if err != nil {
		return nil
	}

	pkg := set.Annotations[olmv1.AnnotationPackageName]
	value, err := json.Marshal(fbc.PackageProperty{
		PackageName: pkg, Version: version.String(), Release: set.Annotations[olmv1.AnnotationBundleRelease],
	})
	if err != nil {
		return nil
	}

	properties := append([]fbc.Property{{Type: fbc.PropertyPackage, Value: value}}, recordedProperties(set)...)
	b := dependency.NewBundle(set.Annotations[olmv1.AnnotationBundleName], pkg, version, properties)
	b.Extension = set.Labels[olmv1.LabelOwnerName]

	return b
}

// recordedProperties returns what a revision records of its bundle's properties. What cannot
// be read counts as not there.
func recordedProperties(set *olmv1.ClusterObjectSet) []fbc.Property {
	var properties []fbc.Property
	for _, key := range []string{olmv1.AnnotationProvides, olmv1.AnnotationRequires} {
		var recorded []fbc.Property
		if json.Unmarshal([]byte(set.Annotations[key]), &recorded) == nil {
			properties = append(properties, recorded...)
		}
	}

	return properties
}

// needsOf is a bundle that is on its way: it needs what it needs, and provides nothing
// yet. Nil when it needs nothing.
func needsOf(b *dependency.Bundle) *dependency.Bundle {
	var needs []fbc.Property
	for _, p := range b.Properties {
		if dependency.IsRequirement(p.Type) {
			needs = append(needs, p)
		}
	}

	if len(needs) == 0 {
		return nil
	}

	// Without a package it is not taken for one that is installed.
	onItsWay := dependency.NewBundle(b.Name, "", b.Version, needs)
	onItsWay.Extension = b.Extension
	return onItsWay
}
