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

// propertyRow is a row of the table properties or dependencies. The table dependencies has
// requirements in the format of dependencies.yaml.
type propertyRow struct {
	table, propertyType, value string
}

const (
	tableProperties   = "properties"
	tableDependencies = "dependencies"
)

// insertProperties inserts the properties and dependencies of a bundle, each once.
func insertProperties(ctx context.Context, q querier, b *Bundle) error {
	properties := b.Properties
	marked, err := isDeprecated(ctx, q, b.Name)
	if err != nil {
		return err
	}
	if marked { // It is added again.
		properties = append(slices.Clone(properties), fbc.Property{Type: propertyDeprecated, Value: json.RawMessage("{}")})
	}

	rows, err := newPropertyRows(properties, b.Dependencies)
	if err != nil {
		return err
	}

	seen := map[propertyRow]bool{}
	for _, row := range rows {
		if seen[row] {
			continue
		}

		seen[row] = true
		var value any = row.value
		if row.table == tableDependencies {
			value = []byte(row.value)
		}

		_, err = q.ExecContext(ctx, `INSERT INTO `+row.table+`
			(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?)`,
			row.propertyType, value, b.Name, nullIfEmpty(b.Version), nullIfEmpty(b.Image))
		if err != nil {
			return err
		}

		if row.propertyType == propertyDeprecated {
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

// newPropertyRows returns the rows of properties and dependencies.
// bundle.PropertyOfDependency is the reverse for the table dependencies.
func newPropertyRows(properties, dependencies []fbc.Property) ([]propertyRow, error) {
	var rows []propertyRow
	for _, p := range properties {
		switch p.Type {
		case fbc.PropertyGVKRequired:
			rows = append(rows, propertyRow{tableDependencies, fbc.PropertyGVK, string(p.Value)})
		case fbc.PropertyPackageRequired:
			var required bundle.PackageRequiredProperty
			if err := json.Unmarshal(p.Value, &required); err != nil {
				return nil, fmt.Errorf("property %q: %w", p.Type, err)
			}

			value, err := encodeCanonical(packageDependency{required.PackageName, required.VersionRange})
			if err != nil {
				return nil, fmt.Errorf("property %q: %w", p.Type, err)
			}

			rows = append(rows, propertyRow{tableDependencies, fbc.PropertyPackage, string(value)})
		default:
			rows = append(rows, propertyRow{tableProperties, p.Type, string(p.Value)})
		}
	}

	for _, d := range dependencies {
		rows = append(rows, propertyRow{tableDependencies, d.Type, string(d.Value)})
	}

	return rows, nil
}

func isDeprecated(ctx context.Context, q querier, name string) (bool, error) {
	_, found, err := queryText(ctx, q, `SELECT operatorbundle_name FROM deprecated WHERE operatorbundle_name = ?`, name)
	return found, err
}

func markDeprecated(ctx context.Context, q querier, name string) error {
	_, err := q.ExecContext(ctx, `INSERT OR IGNORE INTO deprecated (operatorbundle_name) VALUES (?)`, name)
	return err
}
