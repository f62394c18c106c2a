package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Migration names the last of the changes that are made to the bundles of a catalog to
// bring it up to date. Each stands for itself and all before it.
type Migration string

// The migrations that there are.
const (
	// MigrateNone changes nothing.
	MigrateNone Migration = "none"
	// MigrateObjectsToMetadata replaces a bundle's olm.bundle.object properties by one
	// olm.csv.metadata property.
	MigrateObjectsToMetadata Migration = "bundle-object-to-csv-metadata"
	// MigrateAll stands for the last one.
	MigrateAll Migration = "all"
)

// migrations are the changes, the first one first.
var migrations = []struct {
	name  Migration
	apply func(*fbc.Bundle) error
}{
	{MigrateNone, func(*fbc.Bundle) error { return nil }},
	{MigrateObjectsToMetadata, objectsToMetadata},
}

// ParseMigration reads the name of a migration. An empty one is MigrateNone.
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

// Migrate makes the changes up to the named one. With an error the bundle is as it was.
// A bundle that already is up to date stays as it is.
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

// objectsToMetadata leaves alone a bundle without an image, whose objects stand nowhere
// else, one without a CSV, and one that has the metadata already.
func objectsToMetadata(b *fbc.Bundle) error {
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
	// Catalogs are read with names of fields in any case.
	if err := json.Unmarshal(raw, &csv); err != nil {
		return fmt.Errorf("ClusterServiceVersion: %w", err)
	}

	metadata, err := csvMetadata(&csv)
	if err != nil {
		return err
	}

	kept := slices.DeleteFunc(slices.Clone(b.Properties), isObject)
	kept = append(kept, metadata)
	b.Properties = kept

	return nil
}

// Objects are the manifests that the olm.bundle.object properties of a blob carry, in
// their order, as JSON.
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

		object, err := onlyDocument(value.Data)
		if err != nil {
			return nil, fmt.Errorf("convert bundle object property at index %d to JSON: %w", i, err)
		}

		objects = append(objects, object)
	}

	return objects, nil
}

// CSV is the first ClusterServiceVersion among the manifests that a blob carries, as
// JSON, and nil when there is none.
func CSV(b *fbc.Bundle) (json.RawMessage, error) {
	objects, err := Objects(b)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		var meta struct {
			Kind string `json:"kind"`
		}
		// What is no object has no kind.
		if json.Unmarshal(object, &meta) == nil && meta.Kind == kindCSV {
			return object, nil
		}
	}

	return nil, nil
}

func onlyDocument(data []byte) (json.RawMessage, error) {
	if len(data) > maxFileBytes {
		return nil, &limitError{fmt.Sprintf("is larger than the %d bytes that a manifest may have", maxFileBytes)}
	}

	docs, err := documents(data)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, errors.New("holds no object")
	}

	return docs[0], nil
}
