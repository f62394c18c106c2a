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

// Catalog is what the packages of a CatalogSource show of it.
type Catalog struct {
	// Key is the name and the namespace of the CatalogSource.
	Key types.NamespacedName
	// DisplayName and Publisher are for people.
	DisplayName, Publisher string
	// Priority ranks catalogs: packages of a higher one come first.
	Priority int
	// Labels are those of the CatalogSource.
	Labels map[string]string
	// Created is when the CatalogSource was made.
	Created time.Time
}

// entry is a catalog with its packages. It does not change.
type entry struct {
	Catalog

	packages []*Package // by name
	sum      uint64
	// own is the sum of what the catalog says of itself.
	own uint64
}

func newEntry(catalog Catalog, packages []*Package) *entry {
	own := xxhash.New()
	_, _ = fmt.Fprintf(own, "%q%q%q%d %d", catalog.Key, catalog.DisplayName, catalog.Publisher, catalog.Priority, catalog.Created.Unix())
	sumStrings(own, catalog.Labels)
	e := &entry{Catalog: catalog, packages: packages, own: own.Sum64()}
	all := xxhash.New()
	_, _ = fmt.Fprintf(all, "%016x", e.own)
	for _, p := range packages {
		_, _ = fmt.Fprintf(all, "%016x", p.sum)
	}

	e.sum = all.Sum64()
	return e
}

// find returns the package of a name, or nil.
func (e *entry) find(name string) *Package {
	at, found := slices.BinarySearchFunc(e.packages, name, func(p *Package, name string) int { return cmp.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return e.packages[at]
}

// Index holds the packages of all catalogs. It is safe for use by several goroutines.
type Index struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	current *Snapshot
	changed chan struct{}
}

// New makes an empty index.
func New() *Index {
	return &Index{entries: map[types.NamespacedName]*entry{}, current: newSnapshot(nil), changed: make(chan struct{})}
}

// Set has a catalog have these packages, and no others.
func (i *Index) Set(catalog Catalog, packages []*Package) {
	catalog.Labels = maps.Clone(catalog.Labels)
	i.put(newEntry(catalog, slices.SortedFunc(slices.Values(packages), byName)))
}

// Describe changes what a catalog says of itself; its packages stay. It does nothing for a catalog
// that the index does not hold.
func (i *Index) Describe(catalog Catalog) {
	i.mu.Lock()
	have := i.entries[catalog.Key]
	i.mu.Unlock()
	if have != nil {
		i.Set(catalog, have.packages)
	}
}

func (i *Index) put(made *entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if have := i.entries[made.Key]; have != nil && have.sum == made.sum {
		return
	}
	i.entries[made.Key] = made
	i.publish()
}

// Remove takes a catalog out, with all its packages.
func (i *Index) Remove(catalog types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.entries[catalog]; ok {
		delete(i.entries, catalog)
		i.publish()
	}
}

func (i *Index) publish() {
	i.current = newSnapshot(slices.Collect(maps.Values(i.entries)))
	close(i.changed)
	i.changed = make(chan struct{})
}

// Snapshot returns what the index holds, and a channel that is closed once it holds something else.
func (i *Index) Snapshot() (*Snapshot, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current, i.changed
}

// Snapshot is what the index held at one time. It does not change.
type Snapshot struct {
	catalogs []*entry // by namespace, then the higher priority, then by name
	version  string
}

func newSnapshot(catalogs []*entry) *Snapshot {
	slices.SortFunc(catalogs, func(a, b *entry) int {
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
	// Clients take 0 for "any version", and know of no negative ones.
	return &Snapshot{catalogs: catalogs, version: strconv.FormatUint(max(sum.Sum64()>>1, 1), 10)}
}

// Version names the content of the snapshot: replicas that hold the same give it the same version.
// It says nothing about which of two is newer.
func (s *Snapshot) Version() string { return s.version }

// View chooses what of a snapshot is seen.
type View struct {
	// Namespace is where it is seen from: it shows packages of its own catalogs, and then those of
	// the global namespace. Empty stands for all namespaces, each with its own.
	Namespace string
	// Global is the namespace whose catalogs all namespaces see. Empty stands for none.
	Global string
	// Match says what is wanted of it. Nil wants all.
	Match func(Item) bool
}

func (v View) wants(item Item) bool { return v.Match == nil || v.Match(item) }

// rank says in which round the packages of a catalog are listed, and false for those that are not.
func (v View) rank(catalog *entry) (int, bool) {
	switch catalog.Key.Namespace {
	case v.Namespace:
		return 0, true
	case v.Global:
		return 1, true
	}
	return 0, v.Namespace == ""
}

func (v View) item(catalog *entry, p *Package) Item {
	namespace := v.Namespace
	if namespace == "" {
		namespace = catalog.Key.Namespace
	}
	return Item{Namespace: namespace, Catalog: &catalog.Catalog, Package: p}
}

// All yields what a view sees: by catalogs, own before global ones, of a higher priority before those
// of a lower one.
func (s *Snapshot) All(v View) iter.Seq[Item] {
	return s.each(v, func(catalog *entry, yield func(*Package) bool) bool {
		for _, p := range catalog.packages {
			if !yield(p) {
				return false
			}
		}
		return true
	})
}

// Named yields what a view sees of packages of a name, in the order of All.
func (s *Snapshot) Named(v View, name string) iter.Seq[Item] {
	return s.each(v, func(catalog *entry, yield func(*Package) bool) bool {
		p := catalog.find(name)
		return p == nil || yield(p)
	})
}

func (s *Snapshot) each(v View, packages func(*entry, func(*Package) bool) bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		rounds := 2
		if v.Namespace == "" || v.Global == v.Namespace {
			rounds = 1
		}
		for round := range rounds {
			for _, catalog := range s.catalogs {
				rank, seen := v.rank(catalog)
				if !seen || (rounds > 1 && rank != round) {
					continue
				}
				if !packages(catalog, func(p *Package) bool {
					item := v.item(catalog, p)
					return !v.wants(item) || yield(item)
				}) {
					return
				}
			}
		}
	}
}
