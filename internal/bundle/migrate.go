package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Migration names the last change that is applied to the bundles of a catalog to bring it
// up to date. Each one includes all changes before it.
type Migration string

// Supported migrations.
const (
	// MigrateNone changes nothing.
	MigrateNone Migration = "none"
	// MigrateObjectsToMetadata replaces a bundle's olm.bundle.object properties by one
	// olm.csv.metadata property.
	MigrateObjectsToMetadata Migration = "bundle-object-to-csv-metadata"
	// MigrateAll applies all changes.
	MigrateAll Migration = "all"
)

// migrations are the changes in the order in which they are applied.
var migrations = []struct {
	name  Migration
	apply func(*fbc.Bundle) error
}{
	{MigrateNone, func(*fbc.Bundle) error { return nil }},
	{MigrateObjectsToMetadata, migrateObjectsToMetadata},
}

// ParseMigration returns the migration with a name. An empty name is MigrateNone.
func ParseMigration(name string) (Migration, error) {
	if name == "" {
		return MigrateNone, nil
	}

	known := Migration(name) == MigrateAll
	for _, m := range migrations {
		known = known || m.name == Migration(name)
	}

	if !known {
		return "", fmt.Errorf("unknown migration level %q", name)
	}

	return Migration(name), nil
}

// Migrate applies the changes up to the named one. With an error the bundle is unchanged,
// as is a bundle that is already up to date.
func Migrate(b *fbc.Bundle, last Migration) error {
	for _, m := range migrations {
		if err := m.apply(b); err != nil {
			return fmt.Errorf("bundle %q: %s: %w", b.Name, m.name, err)
		}
		if m.name == last {
			break
		}
	}

	return nil
}

// migrateObjectsToMetadata replaces olm.bundle.object properties by one olm.csv.metadata
// property. It does not change a bundle without an image, whose objects are nowhere else,
// one without a CSV, and one that has the metadata already.
func migrateObjectsToMetadata(b *fbc.Bundle) error {
	isMetadata := func(p fbc.Property) bool { return p.Type == fbc.PropertyCSVMetadata }
	isObject := func(p fbc.Property) bool { return p.Type == fbc.PropertyBundleObject }
	if b.Image == "" || !slices.ContainsFunc(b.Properties, isObject) || slices.ContainsFunc(b.Properties, isMetadata) {
		return nil
	}

	raw, err := CSV(b)
	if err != nil || raw == nil {
		return err
	}

	var csv v1alpha1.ClusterServiceVersion
	// In catalogs, field names are not case-sensitive.
	if err := json.Unmarshal(raw, &csv); err != nil {
		return fmt.Errorf("ClusterServiceVersion: %w", err)
	}

	metadata, err := newCSVMetadataProperty(&csv)
	if err != nil {
		return err
	}

	kept := slices.DeleteFunc(slices.Clone(b.Properties), isObject)
	kept = append(kept, metadata)
	b.Properties = kept

	return nil
}

// Objects returns the manifests in the olm.bundle.object properties of a blob, in their
// order, as JSON.
func Objects(b *fbc.Bundle) ([]json.RawMessage, error) {
	var objects []json.RawMessage
	for i, p := range b.Properties {
		if p.Type != fbc.PropertyBundleObject {
			continue
		}

		var value ObjectProperty
		if err := json.Unmarshal(p.Value, &value); err != nil {
			return nil, fmt.Errorf("parse property at index %d as bundle object: %w", i, err)
		}

		object, err := firstDocument(value.Data)
		if err != nil {
			return nil, fmt.Errorf("convert bundle object property at index %d to JSON: %w", i, err)
		}

		objects = append(objects, object)
	}

	return objects, nil
}

// CSV returns the first ClusterServiceVersion among the manifests of a blob, as JSON. It is
// nil when there is none.
func CSV(b *fbc.Bundle) (json.RawMessage, error) {
	objects, err := Objects(b)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		var meta struct {
			Kind string `json:"kind"`
		}
		// A manifest that is not an object has no kind.
		if json.Unmarshal(object, &meta) == nil && meta.Kind == kindCSV {
			return object, nil
		}
	}

	return nil, nil
}

// firstDocument returns the first document of a manifest as JSON.
func firstDocument(data []byte) (json.RawMessage, error) {
	if len(data) > maxFileBytes {
		return nil, &limitError{fmt.Sprintf("is larger than the %d bytes that a manifest may have", maxFileBytes)}
	}

	docs, err := splitDocuments(data)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, errors.New("holds no object")
	}

	return docs[0], nil
}
