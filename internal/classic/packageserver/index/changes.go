package index

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Change is a change of a PackageManifest between two snapshots.
type Change struct {
	// Type is the type of the change.
	Type ChangeType
	// Item is the PackageManifest after the change, or before it if it was deleted.
	Item Item
}

// ChangeType is the type of a change.
type ChangeType string

// Types of changes, named like the events of a watch.
const (
	Added    ChangeType = "ADDED"
	Modified ChangeType = "MODIFIED"
	Deleted  ChangeType = "DELETED"
)

// Changes yields the differences between an earlier snapshot and this one that a view sees.
func (s *Snapshot) Changes(before *Snapshot, v View) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		oldCatalogs, newCatalogs := before.visibleCatalogs(v), s.visibleCatalogs(v)
		for _, old := range before.catalogs {
			if oldCatalogs[old.Key] != nil && newCatalogs[old.Key] == nil && !yieldCatalogChanges(v, old, nil, yield) {
				return
			}
		}
		for _, updated := range s.catalogs {
			if newCatalogs[updated.Key] != nil && !yieldCatalogChanges(v, oldCatalogs[updated.Key], updated, yield) {
				return
			}
		}
	}
}

// visibleCatalogs returns the catalogs that a view sees.
func (s *Snapshot) visibleCatalogs(v View) map[types.NamespacedName]*catalogEntry {
	catalogs := make(map[types.NamespacedName]*catalogEntry, len(s.catalogs))
	for _, catalog := range s.catalogs {
		if _, seen := v.listingRound(catalog); seen {
			catalogs[catalog.Key] = catalog
		}
	}
	return catalogs
}

// yieldCatalogChanges yields the changes of one catalog. before is nil for a new catalog, now
// for a deleted one. It reports whether the iteration continues.
func yieldCatalogChanges(v View, before, now *catalogEntry, yield func(Change) bool) bool {
	if before == now || (before != nil && now != nil && before.sum == now.sum) {
		return true
	}

	return yieldDeletedPackages(v, before, now, yield) && yieldPresentPackages(v, before, now, yield)
}

// yieldDeletedPackages yields the packages that a view no longer sees.
func yieldDeletedPackages(v View, before, now *catalogEntry, yield func(Change) bool) bool {
	if before == nil {
		return true
	}

	for _, p := range before.packages {
		if item := v.newPackageItem(before, p); v.matches(item) && !isPackageVisible(v, now, p.Name) && !yield(Change{Deleted, item}) {
			return false
		}
	}
	return true
}

// yieldPresentPackages yields the packages that are new for a view, and those that changed.
func yieldPresentPackages(v View, before, now *catalogEntry, yield func(Change) bool) bool {
	if now == nil {
		return true
	}

	for _, p := range now.packages {
		item := v.newPackageItem(now, p)
		kind := Modified
		switch {
		case !v.matches(item):
			continue
		case !isPackageVisible(v, before, p.Name):
			kind = Added
		case before.catalogSum == now.catalogSum && before.findPackage(p.Name).sum == p.sum:
			continue
		}
		if !yield(Change{kind, item}) {
			return false
		}
	}
	return true
}

// isPackageVisible reports whether a view sees a package in a catalog. The catalog may be nil.
func isPackageVisible(v View, catalog *catalogEntry, name string) bool {
	if catalog == nil {
		return false
	}
	p := catalog.findPackage(name)
	return p != nil && v.matches(v.newPackageItem(catalog, p))
}
