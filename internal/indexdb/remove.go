package indexdb

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// RemovePackages removes packages with all their bundles. With permissive, it warns about
// packages that cannot be removed.
func (e *Editor) RemovePackages(ctx context.Context, packages []string, permissive bool) error {
	return e.runAtomically(ctx, func() error {
		var errs []error
		for _, pkg := range packages {
			err := e.runAtomically(ctx, func() error { return e.removePackage(ctx, pkg) })
			if err != nil {
				err = opmErrorf("error deleting packages from database: error removing operator package %s: %w", pkg, err)
			}
			errs = append(errs, e.warnIfPermissive(err, permissive))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return e.pruneStrandedBundles(ctx)
	})
}

// PrunePackages removes all packages except keep. Unknown names in keep are ignored.
func (e *Editor) PrunePackages(ctx context.Context, keep []string, permissive bool) error {
	packages, err := queryTexts(ctx, e.tx, `SELECT name FROM package WHERE name IS NOT NULL ORDER BY name`)
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(keep, pkg) })
	return e.RemovePackages(ctx, packages, permissive)
}

// PruneStranded removes bundles that are in no channel and not deprecated, bundles of
// packages that do not exist, and deprecation marks without a bundle.
func (e *Editor) PruneStranded(ctx context.Context) error {
	return e.runAtomically(ctx, func() error { return e.pruneStrandedBundles(ctx) })
}

func (e *Editor) removePackage(ctx context.Context, pkg string) error {
	graphs, err := loadChannelGraphs(ctx, e.tx, pkg)
	if err != nil {
		return err
	}

	_, found, err := queryText(ctx, e.tx, `SELECT name FROM package WHERE name = ?`, pkg)
	if err != nil {
		return err
	}
	if !found && len(graphs) == 0 {
		return opmErrorf("no package found for packagename %s", pkg)
	}

	names := map[string]bool{}
	for _, graph := range graphs {
		for name := range graph.edges {
			names[name] = true
		}
	}

	err = execStatements(ctx, e.tx, []string{
		`DELETE FROM package WHERE name = ?`,
		`DELETE FROM channel WHERE package_name = ?`,
		`DELETE FROM channel_entry WHERE package_name = ?`,
	}, pkg)
	if err != nil {
		return err
	}

	return e.deleteUnlistedBundles(ctx, slices.Sorted(maps.Keys(names)), func(name string) error {
		_, err := e.tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name = ?`, name)
		return err
	})
}

// deleteUnlistedBundles deletes those bundles that are in no channel any longer, and calls
// deleted for each.
func (e *Editor) deleteUnlistedBundles(ctx context.Context, names []string, deleted func(name string) error) error {
	var unlisted []string
	for _, name := range names {
		_, listed, err := queryText(ctx, e.tx, `SELECT operatorbundle_name FROM channel_entry WHERE operatorbundle_name = ? LIMIT 1`, name)
		if err != nil {
			return err
		}
		if listed {
			continue
		}

		unlisted = append(unlisted, name)
		if err := deleted(name); err != nil {
			return err
		}
	}

	return deleteBundles(ctx, e.tx, unlisted)
}

// pruneStrandedBundles implements PruneStranded.
func (e *Editor) pruneStrandedBundles(ctx context.Context) error {
	stranded, err := queryTexts(ctx, e.tx, `SELECT name FROM operatorbundle
		WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry WHERE operatorbundle_name IS NOT NULL)
		AND name NOT IN (SELECT operatorbundle_name FROM deprecated WHERE operatorbundle_name IS NOT NULL)`)
	if err != nil {
		return err
	}
	if err := deleteBundles(ctx, e.tx, stranded); err != nil {
		return err
	}

	homeless, err := queryTexts(ctx, e.tx, `SELECT DISTINCT operatorbundle_name FROM properties
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

// deleteBundles deletes bundles and all rows that refer to them. It deletes these rows
// explicitly, because SQLite does not enforce references with a NULL version or image.
func deleteBundles(ctx context.Context, q querier, names []string) error {
	for _, name := range names {
		err := execStatements(ctx, q, []string{
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
