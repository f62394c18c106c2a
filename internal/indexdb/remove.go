package indexdb

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// RemovePackages removes whole packages with all their bundles. With permissive, those
// that are there are removed, and of the others it is warned.
func (e *Editor) RemovePackages(ctx context.Context, packages []string, permissive bool) error {
	return e.atomically(ctx, func() error {
		var errs []error
		for _, pkg := range packages {
			err := e.atomically(ctx, func() error { return e.removePackage(ctx, pkg) })
			if err != nil {
				err = say("error deleting packages from database: error removing operator package %s: %w", pkg, err)
			}
			errs = append(errs, e.permit(err, permissive))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return e.prune(ctx)
	})
}

// PrunePackages removes every package but those to be kept. Names of packages that the
// index does not have are ignored.
func (e *Editor) PrunePackages(ctx context.Context, keep []string, permissive bool) error {
	packages, err := texts(ctx, e.tx, `SELECT name FROM package WHERE name IS NOT NULL ORDER BY name`)
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(keep, pkg) })
	return e.RemovePackages(ctx, packages, permissive)
}

// PruneStranded removes bundles that no channel names and that are not deprecated, those
// of packages that do not exist, and marks of deprecation without a bundle.
func (e *Editor) PruneStranded(ctx context.Context) error {
	return e.atomically(ctx, func() error { return e.prune(ctx) })
}

func (e *Editor) removePackage(ctx context.Context, pkg string) error {
	graphs, err := loadGraphs(ctx, e.tx, pkg)
	if err != nil {
		return err
	}

	_, found, err := text(ctx, e.tx, `SELECT name FROM package WHERE name = ?`, pkg)
	if err != nil {
		return err
	}
	if !found && len(graphs) == 0 {
		return say("no package found for packagename %s", pkg)
	}

	names := map[string]bool{}
	for _, graph := range graphs {
		for name := range graph.edges {
			names[name] = true
		}
	}

	err = exec(ctx, e.tx, []string{
		`DELETE FROM package WHERE name = ?`,
		`DELETE FROM channel WHERE package_name = ?`,
		`DELETE FROM channel_entry WHERE package_name = ?`,
	}, pkg)
	if err != nil {
		return err
	}

	return e.deleteUnlisted(ctx, slices.Sorted(maps.Keys(names)), func(name string) error {
		_, err := e.tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name = ?`, name)
		return err
	})
}

// deleteUnlisted deletes those of some bundles that no channel names any longer, and calls
// deleted for each.
func (e *Editor) deleteUnlisted(ctx context.Context, names []string, deleted func(name string) error) error {
	var gone []string
	for _, name := range names {
		_, listed, err := text(ctx, e.tx, `SELECT operatorbundle_name FROM channel_entry WHERE operatorbundle_name = ? LIMIT 1`, name)
		if err != nil {
			return err
		}
		if listed {
			continue
		}

		gone = append(gone, name)
		if err := deleted(name); err != nil {
			return err
		}
	}

	return deleteBundles(ctx, e.tx, gone)
}

// prune is PruneStranded.
func (e *Editor) prune(ctx context.Context) error {
	stranded, err := texts(ctx, e.tx, `SELECT name FROM operatorbundle
		WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry WHERE operatorbundle_name IS NOT NULL)
		AND name NOT IN (SELECT operatorbundle_name FROM deprecated WHERE operatorbundle_name IS NOT NULL)`)
	if err != nil {
		return err
	}
	if err := deleteBundles(ctx, e.tx, stranded); err != nil {
		return err
	}

	homeless, err := texts(ctx, e.tx, `SELECT DISTINCT operatorbundle_name FROM properties
		WHERE type = 'olm.package' AND operatorbundle_name IS NOT NULL
		AND iif(json_valid(CAST(value AS TEXT)), json_extract(CAST(value AS TEXT), '$.packageName') NOT IN (SELECT name FROM package WHERE name IS NOT NULL), 0)`)
	if err != nil {
		return err
	}
	if err := deleteBundles(ctx, e.tx, homeless); err != nil {
		return err
	}

	_, err = e.tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name IS NULL
		OR operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)`)
	return err
}

// deleteBundles deletes bundles and every row that hangs on one. The references of rows
// that state no version or image do not count for SQLite, so that it would leave them.
func deleteBundles(ctx context.Context, q querier, names []string) error {
	for _, name := range names {
		err := exec(ctx, q, []string{
			`DELETE FROM api_provider WHERE operatorbundle_name = ?`,
			`DELETE FROM api_requirer WHERE operatorbundle_name = ?`,
			`DELETE FROM properties WHERE operatorbundle_name = ?`,
			`DELETE FROM dependencies WHERE operatorbundle_name = ?`,
			`DELETE FROM related_image WHERE operatorbundle_name = ?`,
			`DELETE FROM operatorbundle WHERE name = ?`,
		}, name)
		if err != nil {
			return err
		}
	}

	return nil
}
