package indexdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Mode is how added bundles are placed in channels.
type Mode string

const (
	// ModeReplaces builds channels from the replaces and skips of the bundles.
	ModeReplaces Mode = "replaces"
	// ModeSemver places bundles in channels by their versions.
	ModeSemver Mode = "semver"
	// ModeSemverSkipPatch is ModeSemver, and each bundle skips the lower versions of its
	// minor version.
	ModeSemverSkipPatch Mode = "semver-skippatch"
)

// ParseMode parses a mode.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case ModeReplaces, ModeSemver, ModeSemverSkipPatch:
		return mode, nil
	default:
		return "", opmErrorf("Invalid channel update mode %s specified", text)
	}
}

// AddOptions configure how bundles are added.
type AddOptions struct {
	// Mode is the mode of adding. The default is ModeReplaces.
	Mode Mode
	// OverwriteLatest allows to replace a bundle of the index by one of the same name, if
	// no other bundle replaces or skips it.
	OverwriteLatest bool
	// EnableAlpha allows bundles that substitute for others.
	EnableAlpha bool
	// Permissive adds the packages that can be added and warns about the others.
	Permissive bool
}

// Add adds bundles, package by package. A failure affects the whole package, and without
// Permissive all packages.
//
// It returns an *ImageAddedError or a *VersionAddedError if a bundle is already in the
// index.
func (e *Editor) Add(ctx context.Context, bundles []Bundle, opts AddOptions) error {
	mode := opts.Mode
	if mode == "" {
		mode = ModeReplaces
	}
	if _, err := ParseMode(string(mode)); err != nil {
		return err
	}

	opts.Mode = mode
	return e.runAtomically(ctx, func() error {
		byPackage := map[string][]*Bundle{}
		for i := range bundles {
			byPackage[bundles[i].Package] = append(byPackage[bundles[i].Package], &bundles[i])
		}

		foreign, err := findForeignEdges(ctx, e.tx, bundles)
		if err != nil {
			return err
		}

		var errs []error
		for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
			err := errors.Join(foreign[pkg]...)
			if err == nil {
				err = e.runAtomically(ctx, func() error { return addToPackage(ctx, e.tx, pkg, byPackage[pkg], opts) })
			}
			errs = append(errs, e.warnIfPermissive(err, opts.Permissive))
		}

		if err := errors.Join(errs...); err != nil {
			return err
		}
		if mode == ModeReplaces {
			return nil
		}

		// In these modes an index keeps only the manifests of heads. The others are in their images.
		_, err = e.tx.ExecContext(ctx, `UPDATE operatorbundle SET csv = NULL, bundle = NULL
			WHERE bundlepath IS NOT NULL AND bundlepath <> ''
			AND name NOT IN (SELECT head_operatorbundle_name FROM channel WHERE head_operatorbundle_name IS NOT NULL)`)
		return err
	})
}

// findForeignEdges returns, by package, errors for bundles that replace or skip a bundle of
// another package.
func findForeignEdges(ctx context.Context, tx *sql.Tx, bundles []Bundle) (map[string][]error, error) {
	users := collectEdgeUsers(bundles)
	errs := map[string][]error{}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		using := slices.Sorted(maps.Keys(users[name]))
		if len(using) > 1 {
			err := fmt.Errorf("bundle %s must belong to exactly one package, found on: %v", name, using)
			errs[using[0]] = append(errs[using[0]], err)
			for _, other := range using[1:] { // They fail too, but the details are reported once.
				errs[other] = append(errs[other], fmt.Errorf("package %s cannot be added for the same reason as package %s", other, using[0]))
			}
			continue
		}

		owners, err := packagesNamingBundle(ctx, tx, name)
		if err != nil {
			return nil, err
		}

		for _, owner := range owners {
			if owner != using[0] {
				errs[using[0]] = append(errs[using[0]],
					fmt.Errorf("bundle %s belongs to package %s on index, cannot be added as an edge for package %s", name, owner, using[0]))
			}
		}
	}

	return errs, nil
}

// collectEdgeUsers returns, by the name of a bundle that others replace or skip, the packages of those
// bundles and its own package.
func collectEdgeUsers(bundles []Bundle) map[string]map[string]bool {
	users := map[string]map[string]bool{}
	for _, b := range bundles {
		for _, name := range slices.Concat([]string{b.Replaces}, b.Skips) {
			if name == "" {
				continue
			}
			if users[name] == nil {
				users[name] = map[string]bool{}
			}
			users[name][b.Package] = true
		}
	}

	for _, b := range bundles {
		if users[b.Name] != nil {
			users[b.Name][b.Package] = true
		}
	}

	return users
}

// packagesNamingBundle returns the packages whose channels contain a bundle of the index.
func packagesNamingBundle(ctx context.Context, tx *sql.Tx, name string) ([]string, error) {
	return queryTexts(ctx, tx, `SELECT DISTINCT CAST(c.package_name AS TEXT) FROM channel_entry c JOIN operatorbundle b ON b.name = c.operatorbundle_name
		WHERE c.operatorbundle_name = ? AND c.package_name IS NOT NULL ORDER BY 1`, name)
}

// addToPackage adds bundles of one package.
func addToPackage(ctx context.Context, tx *sql.Tx, pkg string, bundles []*Bundle, opts AddOptions) error {
	var errs []error
	for _, b := range bundles {
		if err := b.validateForIndex(opts.EnableAlpha); err != nil {
			errs = append(errs, opmErrorf("failed to add bundle %q: %w", b.Name, err))
		}
	}

	if len(errs) > 0 {
		return errors.Join(errs...)
	}

	state, err := loadPackageState(ctx, tx, pkg)
	if err != nil {
		return err
	}
	if err := resolveExistingBundles(ctx, tx, state, bundles, opts.OverwriteLatest); err != nil {
		return err
	}

	for _, b := range bundles {
		if err := insertBundle(ctx, tx, b); err != nil {
			return opmErrorf("failed to add bundle %q: %w", b.Name, err)
		}
		state.addMember(b)
		if state.members[b.Name].deprecated, err = isDeprecated(ctx, tx, b.Name); err != nil {
			return err
		}
	}

	if err := state.loadReplacedMembers(ctx, tx); err != nil {
		return err
	}

	var p *packagePlan
	if opts.Mode == ModeReplaces {
		p, err = planReplaces(pkg, state.members, state.defaultChannel)
	} else {
		p, err = planSemver(state, opts.Mode == ModeSemverSkipPatch)
	}

	if err != nil {
		return fmt.Errorf("package %s: %w", pkg, err)
	}
	if err := p.checkAddedReachable(pkg, state.members); err != nil {
		return err
	}

	return writePlan(ctx, tx, state, p)
}

// resolveExistingBundles returns an error for bundles that are already in the index, and
// removes those that may be overwritten.
func resolveExistingBundles(ctx context.Context, tx *sql.Tx, state *packageState, bundles []*Bundle, overwrite bool) error {
	var errs []error
	images := map[string]bool{}
	names := map[string]bool{}
	var old []string
	for _, b := range bundles {
		found, err := readBundleOccurrence(ctx, tx, state, b)
		if err != nil {
			return err
		}

		here := slices.Contains(found.owners, state.name)
		switch {
		case found.hasImage || b.Image != "" && images[b.Image]:
			errs = append(errs, &ImageAddedError{Image: b.Image})
		case names[b.Name] || here && !overwrite:
			errs = append(errs, &VersionAddedError{Package: state.name, Bundle: b.Name})
		case found.hasName && !here && len(found.owners) > 0:
			errs = append(errs, opmErrorf("failed to add bundle %q: package %s has a bundle of this name", b.Name, found.owners[0]))
		case found.hasName && !overwrite:
			errs = append(errs, opmErrorf("failed to add bundle %q: the index has a bundle of this name that is in no channel; remove it with prune-stranded, or overwrite it", b.Name))
		case found.hasName && state.hasSuccessor(b.Name):
			errs = append(errs, opmErrorf("Cannot overwrite a bundle that is not at the head of a channel using --overwrite-latest: %s", b.Name))
		case found.hasName:
			old = append(old, b.Name)
		}

		images[b.Image] = true
		names[b.Name] = true
	}

	if len(old) > 1 {
		errs = append(errs, opmErrorf("Cannot overwrite more than one bundle at a time for a given package using --overwrite-latest: package %s, bundles %q", state.name, old))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}

	for _, name := range old {
		if err := removeForOverwrite(ctx, tx, state, name); err != nil {
			return err
		}
	}

	return nil
}

// bundleOccurrence is what the index has of a bundle that is added.
type bundleOccurrence struct {
	// hasImage is set if a bundle of the package has the image of the bundle.
	hasImage bool
	// hasName is set if the index has a bundle of the name. owners are the packages whose channels
	// contain it.
	hasName bool
	owners  []string
}

func readBundleOccurrence(ctx context.Context, tx *sql.Tx, state *packageState, b *Bundle) (bundleOccurrence, error) {
	var found bundleOccurrence
	var err error
	if found.hasImage, err = hasBundleImage(ctx, tx, state, b.Image); err != nil {
		return bundleOccurrence{}, err
	}
	if found.hasName, err = hasBundleName(ctx, tx, b.Name); err != nil {
		return bundleOccurrence{}, err
	}

	found.owners, err = packagesNamingBundle(ctx, tx, b.Name)
	return found, err
}

// hasSuccessor reports whether another bundle of the package replaces or skips a bundle.
func (s *packageState) hasSuccessor(name string) bool {
	for _, graph := range s.graphs {
		if graph.hasEdgeTo(name) {
			return true
		}
	}
	return false
}

// hasBundleName reports whether the index has a bundle of this name.
func hasBundleName(ctx context.Context, tx *sql.Tx, name string) (bool, error) {
	_, found, err := queryText(ctx, tx, `SELECT name FROM operatorbundle WHERE name = ?`, name)
	return found, err
}

// hasBundleImage reports whether a bundle of the package has the image.
func hasBundleImage(ctx context.Context, tx *sql.Tx, state *packageState, image string) (bool, error) {
	if image == "" {
		return false, nil
	}
	_, found, err := queryText(ctx, tx, `SELECT b.name FROM operatorbundle b JOIN channel_entry c ON c.operatorbundle_name = b.name
		WHERE c.package_name = ? AND CAST(b.bundlepath AS TEXT) = ? LIMIT 1`, state.name, image)
	return found, err
}

// removeForOverwrite removes a bundle that is about to be added again, with its deprecation
// mark.
func removeForOverwrite(ctx context.Context, tx *sql.Tx, state *packageState, name string) error {
	if err := deleteBundles(ctx, tx, []string{name}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM deprecated WHERE operatorbundle_name = ?`, name); err != nil {
		return err
	}

	delete(state.members, name)
	state.overwritten[name] = true
	return nil
}
