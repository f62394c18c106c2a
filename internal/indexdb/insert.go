package indexdb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// insertBundle inserts the rows of a bundle except its entries in channels.
func insertBundle(ctx context.Context, q querier, b *Bundle) error {
	var objects strings.Builder
	for _, object := range b.Objects {
		objects.Write(object)
		objects.WriteByte('\n')
	}

	// All existing indexes store the two as blobs.
	csv := []byte(b.CSV)
	content := []byte(objects.String())
	if len(b.CSV) == 0 {
		csv = nil
	}

	_, err := q.ExecContext(ctx, `INSERT INTO operatorbundle
		(name, csv, bundle, bundlepath, skiprange, version, replaces, skips, substitutesfor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		b.Name, csv, content, b.Image, b.SkipRange, b.Version, b.Replaces, strings.Join(b.Skips, ","), b.SubstitutesFor)
	if err != nil {
		return err
	}

	for _, image := range b.RelatedImages {
		if _, err := q.ExecContext(ctx, `INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)`, image, b.Name); err != nil {
			return err
		}
	}

	if err := insertProperties(ctx, q, b); err != nil {
		return err
	}
	if err := insertAPIs(ctx, q, b, "api_provider", b.Provides); err != nil {
		return err
	}

	return insertAPIs(ctx, q, b, "api_requirer", b.Requires)
}

func insertAPIs(ctx context.Context, q querier, b *Bundle, table string, apis []API) error {
	for _, api := range apis {
		if err := insertAPI(ctx, q, api); err != nil {
			return err
		}
		_, err := q.ExecContext(ctx, `INSERT INTO `+table+`
			(group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?, ?)`,
			api.Group, api.Version, api.Kind, b.Name, nullIfEmpty(b.Version), nullIfEmpty(b.Image))
		if err != nil {
			return err
		}
	}

	return nil
}

// insertAPI inserts or updates an API. The row is never replaced, because that would delete
// the rows that refer to it.
func insertAPI(ctx context.Context, q querier, api API) error {
	_, err := q.ExecContext(ctx, `INSERT INTO api (group_name, version, kind, plural) VALUES (?, ?, ?, ?)
		ON CONFLICT (group_name, version, kind) DO UPDATE SET plural = excluded.plural WHERE excluded.plural <> ''`,
		api.Group, api.Version, api.Kind, api.Plural)
	return err
}

// insertProperties inserts the properties of a bundle. Requirements go to the table
// dependencies, in the format of dependencies.yaml.
func insertProperties(ctx context.Context, q querier, b *Bundle) error {
	properties := slices.Clone(b.Properties)
	marked, err := isDeprecated(ctx, q, b.Name)
	if err != nil {
		return err
	}
	if marked { // It is added again.
		properties = append(properties, fbc.Property{Type: propertyDeprecated, Value: json.RawMessage("{}")})
	}

	seen := map[[2]string]bool{}
	for _, p := range properties {
		table, stored, err := toStoredProperty(p)
		if err != nil {
			return fmt.Errorf("property %q: %w", p.Type, err)
		}

		if key := [2]string{table + " " + stored.Type, string(stored.Value)}; seen[key] {
			continue
		} else {
			seen[key] = true
		}

		var value any = string(stored.Value)
		if table == "dependencies" {
			value = []byte(stored.Value)
		}

		_, err = q.ExecContext(ctx, `INSERT INTO `+table+`
			(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?)`,
			stored.Type, value, b.Name, nullIfEmpty(b.Version), nullIfEmpty(b.Image))
		if err != nil {
			return err
		}

		if p.Type == propertyDeprecated {
			if err := markDeprecated(ctx, q, b.Name); err != nil {
				return err
			}
		}
	}

	return nil
}

// packageDependency is the value of a dependency of type olm.package.
type packageDependency struct {
	PackageName string `json:"packageName"`
	Version     string `json:"version"`
}

// toStoredProperty returns the table of a property, and the property as it is stored.
func toStoredProperty(p fbc.Property) (string, fbc.Property, error) {
	switch p.Type {
	case fbc.PropertyGVKRequired:
		return "dependencies", fbc.Property{Type: fbc.PropertyGVK, Value: p.Value}, nil
	case fbc.PropertyPackageRequired:
		var required bundle.PackageRequiredProperty
		if err := json.Unmarshal(p.Value, &required); err != nil {
			return "", p, err
		}
		value, err := encodeCanonical(packageDependency{required.PackageName, required.VersionRange})
		return "dependencies", fbc.Property{Type: fbc.PropertyPackage, Value: value}, err
	default:
		return "properties", p, nil
	}
}

// restoreDependency is the reverse of toStoredProperty for rows of the table dependencies.
func restoreDependency(p fbc.Property) (fbc.Property, error) {
	switch p.Type {
	case fbc.PropertyGVK:
		var gvk bundle.GVKProperty
		if err := json.Unmarshal(p.Value, &gvk); err != nil {
			return p, err
		}
		value, err := encodeCanonical(gvk)
		return fbc.Property{Type: fbc.PropertyGVKRequired, Value: value}, err
	case fbc.PropertyPackage:
		var dependency packageDependency
		if err := json.Unmarshal(p.Value, &dependency); err != nil {
			return p, err
		}
		value, err := encodeCanonical(bundle.PackageRequiredProperty{PackageName: dependency.PackageName, VersionRange: dependency.Version})
		return fbc.Property{Type: fbc.PropertyPackageRequired, Value: value}, err
	default:
		return p, nil
	}
}

func isDeprecated(ctx context.Context, q querier, name string) (bool, error) {
	_, found, err := queryText(ctx, q, `SELECT operatorbundle_name FROM deprecated WHERE operatorbundle_name = ?`, name)
	return found, err
}

func markDeprecated(ctx context.Context, q querier, name string) error {
	_, err := q.ExecContext(ctx, `INSERT OR IGNORE INTO deprecated (operatorbundle_name) VALUES (?)`, name)
	return err
}
