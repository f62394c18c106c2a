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
	// maxRequiresBytes and maxProvidesBytes limit the properties that are recorded on a revision,
	// in bytes of JSON. All annotations of an object together have at most 256 KiB.
	maxRequiresBytes = 96 << 10
	maxProvidesBytes = 64 << 10
	// maxStatedBytes limits the properties that the author states, in the same way.
	maxStatedBytes = 32 << 10
)

// newDependencyBundle returns the chosen bundle for dependency resolution, with the properties of
// the catalog and of the image.
func newDependencyBundle(pkg string, chosen selection, inImage []fbc.Property) (*dependency.Bundle, error) {
	version, err := semver.Parse(chosen.Version)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: version %q: %w", chosen.Name, chosen.Version, err)
	}
	b := dependency.NewBundle(chosen.Name, pkg, version, mergeProperties(chosen.properties, inImage))
	b.Catalog = chosen.catalog
	return b, nil
}

// mergeProperties returns the properties of all lists without duplicates, and without those that
// do not concern dependencies.
func mergeProperties(lists ...[]fbc.Property) []fbc.Property {
	var all []fbc.Property
	for _, p := range slices.Concat(lists...) {
		switch p.Type {
		case fbc.PropertyCSVMetadata, fbc.PropertyBundleObject:
			continue
		}
		p.Value = canonicalizeJSON(p.Value)
		known := func(other fbc.Property) bool { return other.Type == p.Type && bytes.Equal(other.Value, p.Value) }
		if !slices.ContainsFunc(all, known) {
			all = append(all, p)
		}
	}

	return all
}

// canonicalizeJSON returns a value in canonical form, with the fields of objects sorted by name.
func canonicalizeJSON(value json.RawMessage) json.RawMessage {
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

// dependencyAnnotations returns the annotations of a revision that record what its bundle provides
// and requires. A bundle that provides only its package and requires nothing has none.
func dependencyAnnotations(b *dependency.Bundle) (map[string]string, error) {
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
		if len(encoded) > maxRequiresBytes {
			return nil, fmt.Errorf("bundle %q: its requirements have %d bytes: at most %d can be recorded", b.Name, len(encoded), maxRequiresBytes)
		}
		annotations[olmv1.AnnotationRequires] = string(encoded)
	}

	if encoded := encodeProvidedProperties(provides); encoded != "" {
		annotations[olmv1.AnnotationProvides] = encoded
	}

	return annotations, nil
}

// recordStatedProperties adds the properties that the author of a bundle states to the annotations
// of its revision, in the form of the CSV's annotation of the same name. Tools that decide about
// the cluster's own update read them there. It returns false, and adds nothing, if they are too
// large.
func recordStatedProperties(annotations map[string]string, stated []fbc.Property) bool {
	if len(stated) == 0 {
		return true
	}

	encoded, err := json.Marshal(stated)
	if err != nil || len(encoded) > maxStatedBytes {
		return false
	}

	annotations[bundle.AnnotationProperties] = string(encoded)
	return true
}

// encodeProvidedProperties encodes as many properties as maxProvidesBytes allows: APIs first, then
// the shortest.
func encodeProvidedProperties(properties []fbc.Property) string {
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
		if size += len(p.Type) + len(p.Value) + len(`{"type":"","value":},`); size > maxProvidesBytes {
			properties = properties[:i]
			break
		}
	}

	if len(properties) == 0 {
		return ""
	}

	encoded, err := json.Marshal(properties)
	if err != nil {
		return "" // Values decoded from JSON always encode.
	}

	return string(encoded)
}

// bundleFromRevision returns the bundle that is recorded on a revision. It returns nil without a
// revision, or if the recorded version cannot be parsed. Properties that cannot be read are
// ignored.
func bundleFromRevision(set *olmv1.ClusterObjectSet) *dependency.Bundle {
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

// recordedProperties returns the properties of the bundle that are recorded on a revision. It
// ignores those that cannot be read.
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

// requirementsOnly returns a bundle that is being rolled out: it has its requirements, but
// provides nothing yet. It returns nil if the bundle has no requirements.
func requirementsOnly(b *dependency.Bundle) *dependency.Bundle {
	var needs []fbc.Property
	for _, p := range b.Properties {
		if dependency.IsRequirement(p.Type) {
			needs = append(needs, p)
		}
	}

	if len(needs) == 0 {
		return nil
	}

	// Without a package it does not count as installed.
	pending := dependency.NewBundle(b.Name, "", b.Version, needs)
	pending.Extension = b.Extension
	return pending
}
