package browse

import (
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Diff is the difference between two catalogs.
type Diff struct {
	// PackagesAdded and PackagesRemoved are sorted names.
	PackagesAdded   []string `json:"packagesAdded,omitempty"`
	PackagesRemoved []string `json:"packagesRemoved,omitempty"`
	// Packages are the differing packages, including added and removed ones, sorted by
	// name.
	Packages []PackageDiff `json:"packages,omitempty"`
}

// PackageDiff is the difference of a package.
type PackageDiff struct {
	upgradegraph.Difference
	// DefaultChannel is that of the new catalog. It is empty if it has not changed.
	DefaultChannel string `json:"defaultChannel,omitempty"`
	// BundlesChanged are bundles with the same name and another image.
	BundlesChanged []string `json:"bundlesChanged,omitempty"`
	// Deprecated are the bundles, channels ("channel stable") and the package ("package")
	// that only the new catalog deprecates.
	Deprecated []string `json:"deprecated,omitempty"`
}

// Stranded returns the number of bundles without a further update.
func (d Diff) Stranded() int {
	n := 0
	for _, p := range d.Packages {
		n += len(p.Stranded)
	}
	return n
}

// Compare returns the difference between two catalogs. Both must be sorted by name, as Load
// returns them.
func Compare(from, to []*Package) Diff {
	before, after := packagesByName(from), packagesByName(to)
	var names []string
	for _, p := range slices.Concat(from, to) {
		names = append(names, p.Name)
	}

	slices.Sort(names)
	var d Diff
	for _, name := range slices.Compact(names) {
		old, current := before[name], after[name]
		switch {
		case old == nil:
			d.PackagesAdded = append(d.PackagesAdded, name)
		case current == nil:
			d.PackagesRemoved = append(d.PackagesRemoved, name)
		}
		if change := comparePackage(old, current); change.hasChanges() {
			d.Packages = append(d.Packages, change)
		}
	}

	return d
}

// packagesByName returns packages by name.
func packagesByName(packages []*Package) map[string]*Package {
	m := make(map[string]*Package, len(packages))
	for _, p := range packages {
		m[p.Name] = p
	}
	return m
}

// hasChanges reports whether there is any difference.
func (d PackageDiff) hasChanges() bool {
	return !d.Empty() || d.DefaultChannel != "" || len(d.BundlesChanged)+len(d.Deprecated) > 0
}

// comparePackage returns the difference of a package. Either may be nil.
func comparePackage(from, to *Package) PackageDiff {
	var before, after *upgradegraph.Graph
	if from != nil {
		before = from.Graph()
	}
	if to != nil {
		after = to.Graph()
	}

	d := PackageDiff{Difference: upgradegraph.Compare(before, after)}
	if from == nil || to == nil {
		return d
	}
	if from.DefaultChannel != to.DefaultChannel {
		d.DefaultChannel = to.DefaultChannel
	}

	images := map[string]string{}
	for _, b := range from.Bundles {
		images[b.Name] = b.Image
	}

	for _, b := range to.Bundles {
		if image, known := images[b.Name]; known && image != b.Image {
			d.BundlesChanged = append(d.BundlesChanged, b.Name)
		}
	}

	slices.Sort(d.BundlesChanged)
	deprecatedBefore := from.deprecatedReferences()
	for name := range to.deprecatedReferences() {
		if !deprecatedBefore[name] {
			d.Deprecated = append(d.Deprecated, name)
		}
	}

	slices.SortFunc(d.Deprecated, strings.Compare)
	return d
}

// deprecatedReferences returns the deprecated parts of the package, named as in
// PackageDiff.Deprecated.
func (p *Package) deprecatedReferences() map[string]bool {
	names := map[string]bool{}
	if p.Deprecated != "" {
		names["package"] = true
	}

	for _, c := range p.Channels {
		if c.Deprecated != "" {
			names["channel "+c.Name] = true
		}
	}

	for _, b := range p.Bundles {
		if b.Deprecated != "" {
			names[b.Name] = true
		}
	}

	return names
}
