package indexdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// DeprecateOptions are how bundles are deprecated.
type DeprecateOptions struct {
	// AllowPackageRemoval allows to deprecate the head of a package's default channel if
	// the heads of all its channels are deprecated with it: the package is removed.
	AllowPackageRemoval bool
	// Permissive deprecates the bundles that can be, and warns of the others.
	Permissive bool
}

// DeprecateTruncate deprecates bundles, given by their images: what lies below one in its
// channels is removed, and channels that it heads are. A catalog does not show the
// deprecated bundle itself, but what replaced it goes on to name it.
func (e *Editor) DeprecateTruncate(ctx context.Context, images []string, opts DeprecateOptions) error {
	return e.atomically(ctx, func() error {
		bundles, err := e.findImages(ctx, images)
		if err := e.permit(err, opts.Permissive); err != nil {
			return err
		}

		removed, err := e.removeDeprecatedPackages(ctx, bundles, opts)
		if err := e.permit(err, opts.Permissive); err != nil {
			return err
		}

		var errs []error
		for _, name := range slices.Sorted(maps.Keys(bundles)) {
			if removed[name] {
				continue
			}
			err := e.atomically(ctx, func() error { return e.deprecate(ctx, name) })
			if err != nil {
				err = say("error deprecating bundle %s: %w", bundles[name], err)
			}
			errs = append(errs, e.permit(err, opts.Permissive))
		}

		return errors.Join(errs...)
	})
}

// findImages returns the images by the names of their bundles. With the error that names
// what is missing come those that were found.
func (e *Editor) findImages(ctx context.Context, images []string) (map[string]string, error) {
	bundles := map[string]string{}
	var missing []string
	for _, image := range images {
		names, err := texts(ctx, e.tx, `SELECT name FROM operatorbundle WHERE name IS NOT NULL AND CAST(bundlepath AS TEXT) = ?`, image)
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

// removeDeprecatedPackages removes the packages of whose channels every head is to be
// deprecated, if that is allowed, and gives the bundles that went with them.
func (e *Editor) removeDeprecatedPackages(ctx context.Context, bundles map[string]string, opts DeprecateOptions) (map[string]bool, error) {
	removed := map[string]bool{}
	if !opts.AllowPackageRemoval {
		return removed, nil
	}

	packages := map[string]bool{}
	for name := range bundles {
		headed, err := texts(ctx, e.tx, `SELECT c.package_name FROM channel c JOIN package p ON p.name = c.package_name AND p.default_channel = c.name
			WHERE c.head_operatorbundle_name = ?`, name)
		if err != nil {
			return nil, err
		}
		for _, pkg := range headed {
			packages[pkg] = true
		}
	}

	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		graphs, err := loadGraphs(ctx, e.tx, pkg)
		if err != nil {
			return nil, err
		}

		for _, channel := range slices.Sorted(maps.Keys(graphs)) {
			if _, given := bundles[graphs[channel].head]; !given {
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

// deprecate cuts off what lies below a bundle, and marks it.
func (e *Editor) deprecate(ctx context.Context, name string) error {
	known, err := e.nameKnown(ctx, name)
	if err != nil || !known { // It lay below another deprecated bundle.
		return err
	}

	packages, err := texts(ctx, e.tx, `SELECT DISTINCT package_name FROM channel_entry WHERE operatorbundle_name = ? ORDER BY 1`, name)
	if err != nil {
		return err
	}

	for _, pkg := range packages {
		if err := e.truncate(ctx, pkg, name); err != nil {
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

// truncate cuts off what lies below a bundle in the channels of a package. What other
// channels name, or what a bundle above leads to as well, stays.
func (e *Editor) truncate(ctx context.Context, pkg, name string) error {
	state, err := loadPackage(ctx, e.tx, pkg)
	if err != nil {
		return err
	}
	if graph, found := state.graphs[state.defaultChannel]; found && graph.head == name {
		return say("Bundle deprecation causing default channel removal")
	}

	p := &plan{defaultChannel: state.defaultChannel, channels: map[string][]row{}}
	tail := map[string]bool{}
	for channel, graph := range state.graphs {
		if _, named := graph.edges[name]; !named {
			continue
		}

		for below := range graph.below(name) {
			tail[below] = true
		}

		if graph.head == name {
			p.channels[channel] = nil
			continue
		}

		p.channels[channel], err = layDown(graph.head, func(bundle string) (edges, bool) {
			if bundle == name {
				return edges{}, true
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

	return e.deleteUnlisted(ctx, slices.Sorted(maps.Keys(tail)), func(bundle string) error {
		_, err := e.tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name = ?`, bundle)
		return err
	})
}
