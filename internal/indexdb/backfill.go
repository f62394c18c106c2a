package indexdb

import (
	"context"
	"fmt"
	"strings"
)

// Parts of migrations, and the data that migrations derive from existing rows.

// combineSteps returns a migration that runs all parts.
func combineSteps(parts ...func(context.Context, *migrationTx) error) func(context.Context, *migrationTx) error {
	return func(ctx context.Context, tx *migrationTx) error {
		for _, part := range parts {
			if err := part(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// rebuildTable returns a migration that changes the definition of a table and keeps the
// named columns.
func rebuildTable(table, definition, columns string) func(context.Context, *migrationTx) error {
	return newStatementsStep(
		`CREATE TABLE rebuilt_`+table+` `+definition,
		`INSERT INTO rebuilt_`+table+` (`+columns+`) SELECT `+columns+` FROM `+table,
		`DROP TABLE `+table,
		`ALTER TABLE rebuilt_`+table+` RENAME TO `+table,
	)
}

// rekeyAPITable returns a migration after which the rows of api_provider or api_requirer
// refer to bundles, no longer to their entries in channels.
func rekeyAPITable(table string) func(context.Context, *migrationTx) error {
	return newStatementsStep(
		`CREATE TABLE rebuilt_`+table+` `+apisOfBundles,
		`INSERT INTO rebuilt_`+table+` (group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path)
			SELECT DISTINCT a.group_name, a.version, a.kind, b.name, nullif(b.version, ''), nullif(b.bundlepath, '')
			FROM `+table+` a JOIN channel_entry e ON e.entry_id = a.channel_entry_id JOIN operatorbundle b ON b.name = e.operatorbundle_name`,
		`DROP TABLE `+table,
		`ALTER TABLE rebuilt_`+table+` RENAME TO `+table,
	)
}

// createTriggers creates the triggers that remove an API that no bundle provides or
// requires any longer.
func createTriggers(ctx context.Context, tx *migrationTx) error {
	return execStatements(ctx, tx, cleanupTriggers)
}

var cleanupTriggers = []string{newCleanupTrigger("api_provider"), newCleanupTrigger("api_requirer")}

func newCleanupTrigger(table string) string {
	const same = ` WHERE group_name = OLD.group_name AND version = OLD.version AND kind = OLD.kind`
	return `CREATE TRIGGER ` + table + `_cleanup AFTER DELETE ON ` + table + `
		WHEN NOT EXISTS (SELECT 1 FROM api_provider` + same + `) AND NOT EXISTS (SELECT 1 FROM api_requirer` + same + `)
		BEGIN DELETE FROM api` + same + `; END`
}

// forEachCSV calls fill for every bundle with a valid CSV. Others are ignored with a
// warning.
func forEachCSV(ctx context.Context, tx *migrationTx, fill func(name string, csv *storedCSV) error) error {
	names, err := queryTexts(ctx, tx, `SELECT name FROM operatorbundle WHERE name IS NOT NULL AND csv IS NOT NULL ORDER BY name`)
	if err != nil {
		return err
	}

	for _, name := range names {
		value, _, err := queryText(ctx, tx, `SELECT CAST(csv AS TEXT) FROM operatorbundle WHERE name = ?`, name)
		if err != nil {
			return err
		}
		if value == "" {
			continue
		}

		csv, err := parseCSV([]byte(value))
		if err != nil {
			tx.opts.warn("bundle ignored by a migration", fmt.Errorf("bundle %q: %w", name, err))
			continue
		}
		if err := fill(name, csv); err != nil {
			return fmt.Errorf("bundle %q: %w", name, err)
		}
	}

	return nil
}

func fillRelatedImages(ctx context.Context, tx *migrationTx) error {
	return forEachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		for _, image := range csv.collectImages() {
			if _, err := tx.ExecContext(ctx, `INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)`, image, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func fillRequirers(ctx context.Context, tx *migrationTx) error {
	return forEachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		for _, api := range csv.requiredAPIs() {
			if err := insertAPI(ctx, tx, api); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO api_requirer (group_name, version, kind, channel_entry_id)
				SELECT ?, ?, ?, entry_id FROM channel_entry WHERE operatorbundle_name = ?`, api.Group, api.Version, api.Kind, name)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func fillVersions(ctx context.Context, tx *migrationTx) error {
	return forEachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		_, err := tx.ExecContext(ctx, `UPDATE operatorbundle SET version = ?, skiprange = ? WHERE name = ?`,
			csv.Spec.Version, csv.Metadata.Annotations[annotationSkipRange], name)
		return err
	})
}

// fillEdges sets the replaces and skips of each bundle. Of the bundles that its entries
// lead to, it replaces the one of the lowest depth and skips the others.
func fillEdges(ctx context.Context, tx *migrationTx) error {
	rows, err := tx.QueryContext(ctx, `SELECT CAST(e.operatorbundle_name AS TEXT), CAST(t.operatorbundle_name AS TEXT)
		FROM channel_entry e JOIN channel_entry t ON t.entry_id = e.replaces
		WHERE e.operatorbundle_name IS NOT NULL AND t.operatorbundle_name IS NOT NULL
		GROUP BY 1, 2 ORDER BY 1, min(e.depth), min(e.entry_id)`)
	if err != nil {
		return err
	}

	type edge struct{ from, to string }
	var edges []edge
	err = forEachRow(rows, func() error {
		var e edge
		err := rows.Scan(&e.from, &e.to)
		edges = append(edges, e)
		return err
	})
	if err != nil {
		return err
	}

	for len(edges) > 0 {
		from := edges[0].from
		var to []string
		for len(edges) > 0 && edges[0].from == from {
			to, edges = append(to, edges[0].to), edges[1:]
		}

		_, err := tx.ExecContext(ctx, `UPDATE operatorbundle SET replaces = ?, skips = ? WHERE name = ?`, to[0], strings.Join(to[1:], ","), from)
		if err != nil {
			return err
		}
	}

	return nil
}
