package indexdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// DeprecateOptions configure how bundles are deprecated.
type DeprecateOptions struct {
	// AllowPackageRemoval allows to deprecate the head of a package's default channel if
	// the heads of all its channels are deprecated too. The package is then removed.
	AllowPackageRemoval bool
	// Permissive deprecates the bundles that can be deprecated, and warns about the others.
	Permissive bool
}

// DeprecateTruncate deprecates bundles by their images. It removes all bundles below them
// from their channels, and channels whose head is deprecated. A catalog does not contain
// the deprecated bundle itself, but its successors still name it.
func (e *Editor) DeprecateTruncate(ctx context.Context, images []string, opts DeprecateOptions) error {
	return e.runAtomically(ctx, func() error {
		bundles, err := e.findBundlesByImage(ctx, images)
		if err := e.warnIfPermissive(err, opts.Permissive); err != nil {
			return err
		}

		removed, err := e.removeDeprecatedPackages(ctx, bundles, opts)
		if err := e.warnIfPermissive(err, opts.Permissive); err != nil {
			return err
		}

		var errs []error
		for _, name := range slices.Sorted(maps.Keys(bundles)) {
			if removed[name] {
				continue
			}
			err := e.runAtomically(ctx, func() error { return e.deprecateBundle(ctx, name) })
			if err != nil {
				err = opmErrorf("error deprecating bundle %s: %w", bundles[name], err)
			}
			errs = append(errs, e.warnIfPermissive(err, opts.Permissive))
		}

		return errors.Join(errs...)
	})
}

// findBundlesByImage returns the images by the names of their bundles. If some are missing,
// it returns an error together with those that were found.
func (e *Editor) findBundlesByImage(ctx context.Context, images []string) (map[string]string, error) {
	bundles := map[string]string{}
	var missing []string
	for _, image := range images {
		names, err := queryTexts(ctx, e.tx, `SELECT name FROM operatorbundle WHERE name IS NOT NULL AND CAST(bundlepath AS TEXT) = ?`, image)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			missing = append(missing, image)
		}
		for _, name := range names {
			bundles[name] = image
		}
	}

	if len(missing) > 0 {
		return bundles, fmt.Errorf("target bundlepaths for deprecation missing from registry: %v", missing)
	}

	return bundles, nil
}

// removeDeprecatedPackages removes the packages of which all channel heads are to be
// deprecated, if that is allowed. It returns the bundles that were removed.
func (e *Editor) removeDeprecatedPackages(ctx context.Context, bundles map[string]string, opts DeprecateOptions) (map[string]bool, error) {
	removed := map[string]bool{}
	if !opts.AllowPackageRemoval {
		return removed, nil
	}

	packages, err := e.packagesWithHead(ctx, bundles)
	if err != nil {
		return nil, err
	}

	for _, pkg := range packages {
		graphs, err := loadChannelGraphs(ctx, e.tx, pkg)
		if err != nil {
			return nil, err
		}

		for _, channel := range slices.Sorted(maps.Keys(graphs)) {
			if _, deprecated := bundles[graphs[channel].head]; !deprecated {
				return removed, fmt.Errorf("cannot deprecate default channel head from package without removing all other channel heads in package %s: must deprecate %s, head of channel %s",
					pkg, graphs[channel].head, channel)
			}
		}

		if err := e.removePackage(ctx, pkg); err != nil {
			return nil, err
		}

		for _, graph := range graphs {
			for name := range graph.edges {
				removed[name] = true
			}
		}
	}

	return removed, nil
}

// packagesWithHead returns the packages, sorted, whose default channel has one of the bundles as its
// head.
func (e *Editor) packagesWithHead(ctx context.Context, bundles map[string]string) ([]string, error) {
	packages := map[string]bool{}
	for name := range bundles {
		headed, err := queryTexts(ctx, e.tx, `SELECT c.package_name FROM channel c JOIN package p ON p.name = c.package_name AND p.default_channel = c.name
			WHERE c.head_operatorbundle_name = ?`, name)
		if err != nil {
			return nil, err
		}
		for _, pkg := range headed {
			packages[pkg] = true
		}
	}

	return slices.Sorted(maps.Keys(packages)), nil
}

// deprecateBundle truncates the channels below a bundle, and marks it as deprecated.
func (e *Editor) deprecateBundle(ctx context.Context, name string) error {
	known, err := hasBundleName(ctx, e.tx, name)
	if err != nil || !known { // It was removed below another deprecated bundle.
		return err
	}

	packages, err := queryTexts(ctx, e.tx, `SELECT DISTINCT package_name FROM channel_entry WHERE operatorbundle_name = ? ORDER BY 1`, name)
	if err != nil {
		return err
	}

	for _, pkg := range packages {
		if err := e.truncateChannels(ctx, pkg, name); err != nil {
			return err
		}
	}

	if _, err := e.tx.ExecContext(ctx, `UPDATE operatorbundle SET replaces = NULL WHERE name = ?`, name); err != nil {
		return err
	}
	if err := markDeprecated(ctx, e.tx, name); err != nil {
		return err
	}

	_, err = e.tx.ExecContext(ctx, `INSERT INTO properties (type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
		SELECT ?1, '{}', name, nullif(version, ''), nullif(bundlepath, '') FROM operatorbundle
		WHERE name = ?2 AND NOT EXISTS (SELECT 1 FROM properties p WHERE p.operatorbundle_name = ?2 AND p.type = ?1)`, propertyDeprecated, name)
	return err
}

// truncateChannels removes the bundles below a bundle from the channels of a package.
// Bundles in other channels, or to which a bundle above also leads, stay.
func (e *Editor) truncateChannels(ctx context.Context, pkg, name string) error {
	state, err := loadPackageState(ctx, e.tx, pkg)
	if err != nil {
		return err
	}
	if graph, found := state.graphs[state.defaultChannel]; found && graph.head == name {
		return opmErrorf("Bundle deprecation causing default channel removal")
	}

	p := &packagePlan{defaultChannel: state.defaultChannel, channels: map[string][]channelRow{}}
	tail := map[string]bool{}
	for channel, graph := range state.graphs {
		if _, named := graph.edges[name]; !named {
			continue
		}

		for below := range graph.bundlesBelow(name) {
			tail[below] = true
		}

		if graph.head == name {
			p.channels[channel] = nil
			continue
		}

		p.channels[channel], err = layOutChannel(graph.head, func(bundle string) (updateEdges, bool) {
			if bundle == name {
				return updateEdges{}, true
			}
			e, found := graph.edges[bundle]
			return e, found
		})
		if err != nil {
			return fmt.Errorf("package %s, channel %s: %w", pkg, channel, err)
		}
	}

	if err := writePlan(ctx, e.tx, state, p); err != nil {
		return err
	}

	return e.deleteUnlistedBundles(ctx, slices.Sorted(maps.Keys(tail)), func(bundle string) error {
		_, err := e.tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name = ?`, bundle)
		return err
	})
}
