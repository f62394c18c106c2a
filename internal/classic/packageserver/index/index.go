package index

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/types"
)

// Catalog has the fields of a CatalogSource that its PackageManifests show.
type Catalog struct {
	// Key is the namespace and name of the CatalogSource.
	Key types.NamespacedName
	// DisplayName and Publisher are shown to users.
	DisplayName, Publisher string
	// Priority orders catalogs: packages of catalogs with a higher priority come first.
	Priority int
	// Labels are the labels of the CatalogSource.
	Labels map[string]string
	// Created is the creation time of the CatalogSource.
	Created time.Time
}

// catalogEntry is a catalog with its packages. It is immutable.
type catalogEntry struct {
	Catalog

	packages []*Package // by name
	sum      uint64
	// catalogSum is the checksum of Catalog, sum that of Catalog and packages.
	catalogSum uint64
}

func newCatalogEntry(catalog Catalog, packages []*Package) *catalogEntry {
	catalogSum := xxhash.New()
	_, _ = fmt.Fprintf(catalogSum, "%q%q%q%d %d", catalog.Key, catalog.DisplayName, catalog.Publisher, catalog.Priority, catalog.Created.Unix())
	addLabelsToHash(catalogSum, catalog.Labels)
	e := &catalogEntry{Catalog: catalog, packages: packages, catalogSum: catalogSum.Sum64()}
	total := xxhash.New()
	_, _ = fmt.Fprintf(total, "%016x", e.catalogSum)
	for _, p := range packages {
		_, _ = fmt.Fprintf(total, "%016x", p.sum)
	}

	e.sum = total.Sum64()
	return e
}

// findPackage returns a package by its name, or nil.
func (e *catalogEntry) findPackage(name string) *Package {
	at, found := slices.BinarySearchFunc(e.packages, name, func(p *Package, name string) int { return cmp.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return e.packages[at]
}

// Index holds the packages of all catalogs. It is safe for concurrent use.
type Index struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*catalogEntry
	current *Snapshot
	changed chan struct{}
}

// New returns an empty index.
func New() *Index {
	return &Index{entries: map[types.NamespacedName]*catalogEntry{}, current: newSnapshot(nil), changed: make(chan struct{})}
}

// Set replaces the packages of a catalog.
func (i *Index) Set(catalog Catalog, packages []*Package) {
	catalog.Labels = maps.Clone(catalog.Labels)
	i.setCatalogEntry(newCatalogEntry(catalog, slices.SortedFunc(slices.Values(packages), comparePackageNames)))
}

// UpdateCatalog updates the fields of a catalog and keeps its packages. It does nothing if the index
// does not hold the catalog.
func (i *Index) UpdateCatalog(catalog Catalog) {
	i.mu.Lock()
	current := i.entries[catalog.Key]
	i.mu.Unlock()
	if current != nil {
		i.Set(catalog, current.packages)
	}
}

// setCatalogEntry stores an entry and publishes a snapshot if the entry differs from the
// current one.
func (i *Index) setCatalogEntry(updated *catalogEntry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if current := i.entries[updated.Key]; current != nil && current.sum == updated.sum {
		return
	}
	i.entries[updated.Key] = updated
	i.publishSnapshot()
}

// Remove removes a catalog and its packages.
func (i *Index) Remove(catalog types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.entries[catalog]; ok {
		delete(i.entries, catalog)
		i.publishSnapshot()
	}
}

// publishSnapshot creates a new snapshot and notifies those who wait for a change. The caller
// must hold the lock.
func (i *Index) publishSnapshot() {
	i.current = newSnapshot(slices.Collect(maps.Values(i.entries)))
	close(i.changed)
	i.changed = make(chan struct{})
}

// Snapshot returns the current snapshot, and a channel that is closed when it is replaced.
func (i *Index) Snapshot() (*Snapshot, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current, i.changed
}

// Snapshot is the content of the index at one time. It is immutable.
type Snapshot struct {
	catalogs []*catalogEntry // by namespace, then the higher priority, then by name
	version  string
}

func newSnapshot(catalogs []*catalogEntry) *Snapshot {
	slices.SortFunc(catalogs, func(a, b *catalogEntry) int {
		return cmp.Or(
			cmp.Compare(a.Key.Namespace, b.Key.Namespace),
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Key.Name, b.Key.Name),
		)
	})

	sum := xxhash.New()
	for _, c := range catalogs {
		_, _ = fmt.Fprintf(sum, "%016x", c.sum)
	}
	// Clients interpret 0 as "any version", and versions are not negative.
	return &Snapshot{catalogs: catalogs, version: strconv.FormatUint(max(sum.Sum64()>>1, 1), 10)}
}

// Version returns the resource version of the snapshot. Replicas with the same content have the
// same version. Versions are not ordered: they do not show which of two snapshots is newer.
func (s *Snapshot) Version() string { return s.version }

// View selects a part of a snapshot.
type View struct {
	// Namespace is the namespace from which packages are listed. It sees its own catalogs
	// first, then those of the global namespace. If it is empty, every namespace sees its own
	// catalogs.
	Namespace string
	// Global is the namespace whose catalogs all namespaces see. It may be empty.
	Global string
	// Match filters the packages. If it is nil, all match.
	Match func(Item) bool
}

func (v View) matches(item Item) bool { return v.Match == nil || v.Match(item) }

// listingRound returns the round in which the packages of a catalog are listed: 0 for catalogs
// of the namespace, 1 for global ones. It returns false if the view does not see the catalog.
func (v View) listingRound(catalog *catalogEntry) (int, bool) {
	switch catalog.Key.Namespace {
	case v.Namespace:
		return 0, true
	case v.Global:
		return 1, true
	}
	return 0, v.Namespace == ""
}

// newPackageItem returns the item for a package of a catalog.
func (v View) newPackageItem(catalog *catalogEntry, p *Package) Item {
	namespace := v.Namespace
	if namespace == "" {
		namespace = catalog.Key.Namespace
	}
	return Item{Namespace: namespace, Catalog: &catalog.Catalog, Package: p}
}

// All yields the packages that a view sees. Catalogs of the namespace come before global ones,
// and catalogs of a higher priority before those of a lower one.
func (s *Snapshot) All(v View) iter.Seq[Item] {
	return s.yieldVisibleItems(v, func(catalog *catalogEntry, yield func(*Package) bool) bool {
		for _, p := range catalog.packages {
			if !yield(p) {
				return false
			}
		}
		return true
	})
}

// Named yields the packages with a name that a view sees, in the order of All.
func (s *Snapshot) Named(v View, name string) iter.Seq[Item] {
	return s.yieldVisibleItems(v, func(catalog *catalogEntry, yield func(*Package) bool) bool {
		p := catalog.findPackage(name)
		return p == nil || yield(p)
	})
}

// yieldVisibleItems yields the packages that a view sees. packages yields the candidates of one
// catalog.
func (s *Snapshot) yieldVisibleItems(v View, packages func(*catalogEntry, func(*Package) bool) bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		rounds := 2
		if v.Namespace == "" || v.Global == v.Namespace {
			rounds = 1
		}
		for round := range rounds {
			for _, catalog := range s.catalogs {
				rank, seen := v.listingRound(catalog)
				if !seen || (rounds > 1 && rank != round) {
					continue
				}
				if !packages(catalog, func(p *Package) bool {
					item := v.newPackageItem(catalog, p)
					return !v.matches(item) || yield(item)
				}) {
					return
				}
			}
		}
	}
}
