package indexdb

import (
	"context"
	"fmt"
	"strings"
)

// What migrations fill in from what was there before, and the parts that they are made of.

func steps(parts ...func(context.Context, *migrating) error) func(context.Context, *migrating) error {
	return func(ctx context.Context, tx *migrating) error {
		for _, part := range parts {
			if err := part(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// rebuild returns a table another definition and keeps the columns that are named.
func rebuild(table, definition, columns string) func(context.Context, *migrating) error {
	return ddl(
		`CREATE TABLE rebuilt_`+table+` `+definition,
		`INSERT INTO rebuilt_`+table+` (`+columns+`) SELECT `+columns+` FROM `+table,
		`DROP TABLE `+table,
		`ALTER TABLE rebuilt_`+table+` RENAME TO `+table,
	)
}

// rekey has the rows of api_provider or api_requirer refer to bundles, no longer to their
// entries in channels.
func rekey(table string) func(context.Context, *migrating) error {
	return ddl(
		`CREATE TABLE rebuilt_`+table+` `+apisOfBundles,
		`INSERT INTO rebuilt_`+table+` (group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path)
			SELECT DISTINCT a.group_name, a.version, a.kind, b.name, nullif(b.version, ''), nullif(b.bundlepath, '')
			FROM `+table+` a JOIN channel_entry e ON e.entry_id = a.channel_entry_id JOIN operatorbundle b ON b.name = e.operatorbundle_name`,
		`DROP TABLE `+table,
		`ALTER TABLE rebuilt_`+table+` RENAME TO `+table,
	)
}

// createTriggers makes the triggers that remove an API that nothing provides or requires
// any longer.
func createTriggers(ctx context.Context, tx *migrating) error {
	return exec(ctx, tx, triggers)
}

var triggers = []string{cleanupTrigger("api_provider"), cleanupTrigger("api_requirer")}

func cleanupTrigger(table string) string {
	const same = ` WHERE group_name = OLD.group_name AND version = OLD.version AND kind = OLD.kind`
	return `CREATE TRIGGER ` + table + `_cleanup AFTER DELETE ON ` + table + `
		WHEN NOT EXISTS (SELECT 1 FROM api_provider` + same + `) AND NOT EXISTS (SELECT 1 FROM api_requirer` + same + `)
		BEGIN DELETE FROM api` + same + `; END`
}

// eachCSV calls fill for every bundle whose CSV can be read. Others are passed over, as
// nothing can be filled in for them.
func eachCSV(ctx context.Context, tx *migrating, fill func(name string, csv *storedCSV) error) error {
	names, err := texts(ctx, tx, `SELECT name FROM operatorbundle WHERE name IS NOT NULL AND csv IS NOT NULL ORDER BY name`)
	if err != nil {
		return err
	}

	for _, name := range names {
		value, _, err := text(ctx, tx, `SELECT CAST(csv AS TEXT) FROM operatorbundle WHERE name = ?`, name)
		if err != nil {
			return err
		}
		if value == "" {
			continue
		}

		csv, err := parseCSV([]byte(value))
		if err != nil {
			tx.opts.warn("bundle passed over by a migration", fmt.Errorf("bundle %q: %w", name, err))
			continue
		}
		if err := fill(name, csv); err != nil {
			return fmt.Errorf("bundle %q: %w", name, err)
		}
	}

	return nil
}

func fillRelatedImages(ctx context.Context, tx *migrating) error {
	return eachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		for _, image := range csv.images() {
			if _, err := tx.ExecContext(ctx, `INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)`, image, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func fillRequirers(ctx context.Context, tx *migrating) error {
	return eachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		for _, api := range csv.required() {
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

func fillVersions(ctx context.Context, tx *migrating) error {
	return eachCSV(ctx, tx, func(name string, csv *storedCSV) error {
		_, err := tx.ExecContext(ctx, `UPDATE operatorbundle SET version = ?, skiprange = ? WHERE name = ?`,
			csv.Spec.Version, csv.Metadata.Annotations[annotationSkipRange], name)
		return err
	})
}

// fillEdges states for each bundle what it replaces and skips: of the bundles that its
// entries lead to, the one of the lowest depth is replaced and the others are skipped.
func fillEdges(ctx context.Context, tx *migrating) error {
	rows, err := tx.QueryContext(ctx, `SELECT CAST(e.operatorbundle_name AS TEXT), CAST(t.operatorbundle_name AS TEXT)
		FROM channel_entry e JOIN channel_entry t ON t.entry_id = e.replaces
		WHERE e.operatorbundle_name IS NOT NULL AND t.operatorbundle_name IS NOT NULL
		GROUP BY 1, 2 ORDER BY 1, min(e.depth), min(e.entry_id)`)
	if err != nil {
		return err
	}

	type edge struct{ from, to string }
	var edges []edge
	err = scan(rows, func() error {
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
