package index

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Change is what has become of a PackageManifest between two snapshots.
type Change struct {
	// Type says what.
	Type ChangeType
	// Item is how it is now, or was when it was last seen.
	Item Item
}

// ChangeType says what has become of a PackageManifest.
type ChangeType string

// What can become of one, called as in a watch.
const (
	Added    ChangeType = "ADDED"
	Modified ChangeType = "MODIFIED"
	Deleted  ChangeType = "DELETED"
)

// Changes yields what a view sees differently in a snapshot than in one before.
func (s *Snapshot) Changes(before *Snapshot, v View) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		had, has := before.seen(v), s.seen(v)
		for _, old := range before.catalogs {
			if had[old.Key] != nil && has[old.Key] == nil && !compare(v, old, nil, yield) {
				return
			}
		}
		for _, made := range s.catalogs {
			if has[made.Key] != nil && !compare(v, had[made.Key], made, yield) {
				return
			}
		}
	}
}

// seen returns the catalogs that a view sees.
func (s *Snapshot) seen(v View) map[types.NamespacedName]*entry {
	catalogs := make(map[types.NamespacedName]*entry, len(s.catalogs))
	for _, catalog := range s.catalogs {
		if _, seen := v.rank(catalog); seen {
			catalogs[catalog.Key] = catalog
		}
	}
	return catalogs
}

// compare yields what has changed in a catalog. One of the two may be nil: it was not there.
func compare(v View, before, now *entry, yield func(Change) bool) bool {
	if before == now || (before != nil && now != nil && before.sum == now.sum) {
		return true
	}

	if before != nil {
		for _, p := range before.packages {
			if item := v.item(before, p); v.wants(item) && !wantedIn(v, now, p.Name) && !yield(Change{Deleted, item}) {
				return false
			}
		}
	}

	if now == nil {
		return true
	}

	for _, p := range now.packages {
		item := v.item(now, p)
		if !v.wants(item) {
			continue
		}
		switch {
		case !wantedIn(v, before, p.Name):
			if !yield(Change{Added, item}) {
				return false
			}
		case before.own != now.own || before.find(p.Name).sum != p.sum:
			if !yield(Change{Modified, item}) {
				return false
			}
		}
	}

	return true
}

// wantedIn reports whether a view sees a package in a catalog.
func wantedIn(v View, catalog *entry, name string) bool {
	if catalog == nil {
		return false
	}
	p := catalog.find(name)
	return p != nil && v.wants(v.item(catalog, p))
}
