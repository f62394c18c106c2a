package browse

import (
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Diff is what changes from one catalog to another.
type Diff struct {
	// PackagesAdded and PackagesRemoved are sorted names.
	PackagesAdded   []string `json:"packagesAdded,omitempty"`
	PackagesRemoved []string `json:"packagesRemoved,omitempty"`
	// Packages that change, those added and removed included, by name.
	Packages []PackageDiff `json:"packages,omitempty"`
}

// PackageDiff is what changes for a package.
type PackageDiff struct {
	upgradegraph.Difference
	// DefaultChannel is that of the new catalog, when it has changed.
	DefaultChannel string `json:"defaultChannel,omitempty"`
	// BundlesChanged have the same name and another image.
	BundlesChanged []string `json:"bundlesChanged,omitempty"`
	// Deprecated are bundles, channels ("channel stable") and the package ("package") that
	// the new catalog deprecates and the old did not.
	Deprecated []string `json:"deprecated,omitempty"`
}

// Stranded counts the bundles whose users get no update any more.
func (d Diff) Stranded() int {
	n := 0
	for _, p := range d.Packages {
		n += len(p.Stranded)
	}
	return n
}

// Compare tells what changes from one catalog to another. Both are sorted by name, as
// Load gives them.
func Compare(from, to []*Package) Diff {
	was, is := byName(from), byName(to)
	var names []string
	for _, p := range slices.Concat(from, to) {
		names = append(names, p.Name)
	}

	slices.Sort(names)
	var d Diff
	for _, name := range slices.Compact(names) {
		old, renewed := was[name], is[name]
		switch {
		case old == nil:
			d.PackagesAdded = append(d.PackagesAdded, name)
		case renewed == nil:
			d.PackagesRemoved = append(d.PackagesRemoved, name)
		}
		if change := comparePackage(old, renewed); change.any() {
			d.Packages = append(d.Packages, change)
		}
	}

	return d
}

func byName(packages []*Package) map[string]*Package {
	m := make(map[string]*Package, len(packages))
	for _, p := range packages {
		m[p.Name] = p
	}
	return m
}

func (d PackageDiff) any() bool {
	return !d.Empty() || d.DefaultChannel != "" || len(d.BundlesChanged)+len(d.Deprecated) > 0
}

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
	was := from.deprecated()
	for name := range to.deprecated() {
		if !was[name] {
			d.Deprecated = append(d.Deprecated, name)
		}
	}

	slices.SortFunc(d.Deprecated, strings.Compare)
	return d
}

// deprecated names what of the package is deprecated.
func (p *Package) deprecated() map[string]bool {
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
