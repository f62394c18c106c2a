package indexdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Record has the data of a bundle in an index that a blob of a file-based catalog does not
// have: the rows as they are stored, and the plural names of APIs. Index servers have
// always returned these.
type Record struct {
	// Properties are the rows of the table properties. They do not include requirements.
	Properties []RecordValue `json:"properties,omitempty"`
	// Dependencies are the rows of the table dependencies, of any type.
	Dependencies []RecordValue `json:"dependencies,omitempty"`
	// Provides and Requires are the APIs of the bundle, with their plural names.
	Provides []API `json:"provides,omitempty"`
	Requires []API `json:"requires,omitempty"`
}

// RecordValue is a row with a type and a value. The value is the stored text.
type RecordValue struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// recordField is the field with the Record in the blob of a bundle. Readers of file-based
// catalogs ignore it.
const recordField = "record"

// MetasWithRecords yields the blobs of Metas for a server. The blob of each bundle contains its
// Record. Deprecated bundles are included, because clients decide how to handle them.
func (x *Index) MetasWithRecords(ctx context.Context) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		r := &metaReader{Index: x, yield: yield, served: true}
		if err := r.readAll(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(fbc.Meta{}, fmt.Errorf("reading the index database: %w", explainSQLiteError(err)))
		}
	}
}

// DecodeRecord returns the Record of a bundle's blob, or nil for a blob without one.
func DecodeRecord(blob json.RawMessage) (*Record, error) {
	var content struct {
		Record *Record `json:"record"`
	}
	if err := json.Unmarshal(blob, &content); err != nil {
		return nil, fmt.Errorf("field %q: %w", recordField, err)
	}
	return content.Record, nil
}

// loadBundleAPIs reads the APIs of all bundles from api_provider or api_requirer.
func loadBundleAPIs(ctx context.Context, q querier, table string) (map[string][]API, error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(o.operatorbundle_name AS TEXT), CAST(o.group_name AS TEXT), CAST(o.version AS TEXT), CAST(o.kind AS TEXT), CAST(api.plural AS TEXT)
		FROM `+table+` o LEFT JOIN api USING (group_name, version, kind) WHERE o.operatorbundle_name IS NOT NULL ORDER BY o.rowid LIMIT ?`, maxTableRows+1)
	if err != nil {
		return nil, err
	}

	found, n := map[string][]API{}, 0
	err = forEachRow(rows, func() error {
		var name, group, version, kind, plural sql.NullString
		if err := rows.Scan(&name, &group, &version, &kind, &plural); err != nil {
			return err
		}
		if n++; n > maxTableRows {
			return fmt.Errorf("%w: the table %s has more than %d rows", ErrTooLarge, table, maxTableRows)
		}

		found[name.String] = append(found[name.String], API{group.String, version.String, kind.String, plural.String})
		return nil
	})

	return found, err
}

// readRecord reads the Record of a bundle.
func (r *metaReader) readRecord(ctx context.Context, name string) (*Record, error) {
	properties, err := readRecordValues(ctx, r.property, r.properties[name])
	if err != nil {
		return nil, err
	}

	dependencies, err := readRecordValues(ctx, r.dependency, r.dependencies[name])
	if err != nil {
		return nil, err
	}

	return &Record{Properties: properties, Dependencies: dependencies, Provides: r.provided[name], Requires: r.required[name]}, nil
}

// readRecordValues reads rows of the tables properties or dependencies as they are stored.
func readRecordValues(ctx context.Context, statement *sql.Stmt, ids []int64) ([]RecordValue, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	rows, err := statement.QueryContext(ctx, encodeRowIDs(ids))
	if err != nil {
		return nil, err
	}

	var values []RecordValue
	err = forEachRow(rows, func() error {
		var valueType, value sql.NullString
		err := rows.Scan(&valueType, &value)
		values = append(values, RecordValue{valueType.String, value.String})
		return err
	})

	return values, err
}
