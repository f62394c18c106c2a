package install

import (
	"context"
	"fmt"
	"slices"
	"sync"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

const (
	// maxDependencyDepth limits how far dependencies of dependencies are followed.
	maxDependencyDepth = 8
	// maxCandidatePackages limits the packages of one catalog that are read for the dependencies
	// of one bundle. At about 100 KB each they take 20 MB.
	maxCandidatePackages = 200
	// maxCachedSearches limits the cached search results. Each takes about 200 bytes.
	maxCachedSearches = 4096
)

// catalogContents are the packages of the selected catalogs that may meet the requirements of a
// bundle.
type catalogContents struct {
	selected []olmv1.ClusterCatalog
	// contents maps the names of catalogs and packages to the content of each package.
	contents map[string]map[string]*fbc.Content
}

// dependencyCatalogs returns the packages of each catalog, for the dependency resolver.
func (o *catalogContents) dependencyCatalogs() []dependency.Catalog {
	var result []dependency.Catalog
	for i := range o.selected {
		c := dependency.Catalog{Name: o.selected[i].Name, Priority: o.selected[i].Spec.Priority}
		for _, content := range o.contents[c.Name] {
			c.Contents = append(c.Contents, content)
		}
		result = append(result, c)
	}

	return result
}

// catalogsForPackage returns each catalog with its content of one package.
func (o *catalogContents) catalogsForPackage(pkg string) []resolve.Catalog {
	var result []resolve.Catalog
	for i := range o.selected {
		c := &o.selected[i]
		result = append(result, resolve.Catalog{Name: c.Name, Priority: c.Spec.Priority, Content: o.contents[c.Name][pkg]})
	}
	return result
}

// readCandidatePackages reads the packages that may meet requirements from the catalogs that an
// extension selects. If deep is true, it also follows the requirements of these packages, up to
// maxDependencyDepth.
func (b *catalogBrowser) readCandidatePackages(ctx context.Context, ext *olmv1.ClusterExtension, unmet []dependency.Unmet, deep bool) (*catalogContents, error) {
	selected, err := b.listSelectedCatalogs(ctx, ext)
	if err != nil {
		return nil, err
	}

	selected = filterServingCatalogs(selected)
	o := &catalogContents{selected: selected, contents: map[string]map[string]*fbc.Content{}}
	var frontier []dependency.Requirement
	for _, u := range unmet {
		frontier = append(frontier, u.Requirement)
	}

	seen := map[string]bool{}
	levels := 1
	if deep {
		levels = maxDependencyDepth
	}

	for level := 0; level < levels && len(frontier) > 0; level++ {
		var next []dependency.Requirement
		for i := range selected {
			names, err := b.findMatchingPackages(ctx, &selected[i], frontier)
			if err != nil {
				return nil, err
			}
			if level == 0 && deep { // Error messages may suggest other versions of the package itself.
				names = append(names, ext.Spec.Source.Catalog.PackageName)
			}

			found, err := b.readPackages(ctx, &selected[i], o, names)
			if err != nil {
				return nil, err
			}

			next = append(next, collectRequirements(found, seen)...)
		}
		frontier = next
	}

	return o, nil
}

// readPackages reads the packages of a catalog that were not read yet, and returns those.
func (b *catalogBrowser) readPackages(ctx context.Context, catalog *olmv1.ClusterCatalog, o *catalogContents, names []string) ([]*fbc.Content, error) {
	known := o.contents[catalog.Name]
	if known == nil {
		known = map[string]*fbc.Content{}
		o.contents[catalog.Name] = known
	}

	var found []*fbc.Content
	for _, name := range names {
		if _, ok := known[name]; ok || len(known) >= maxCandidatePackages {
			continue
		}

		content, err := b.catalogs.Content(ctx, catalog.Status.URLs.Base, name)
		if err != nil {
			return nil, newPackageReadError(name, catalog.Name, err)
		}

		known[name] = content
		found = append(found, content)
	}

	return found, nil
}

func newPackageReadError(pkg, catalog string, err error) error {
	return reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("reading package %q from catalog %q: %w", pkg, catalog, err))
}

// collectRequirements returns the requirements of the bundles that are not in seen, and adds them
// to it.
func collectRequirements(contents []*fbc.Content, seen map[string]bool) []dependency.Requirement {
	var found []dependency.Requirement
	for _, content := range contents {
		for i := range content.Bundles {
			requirements, err := dependency.Parse(content.Bundles[i].Properties)
			if err != nil {
				continue // It cannot be resolved.
			}
			for _, r := range requirements {
				if !seen[r.Key()] {
					seen[r.Key()] = true
					found = append(found, r)
				}
			}
		}
	}

	return found
}

// findMatchingPackages returns the names of the packages of a catalog that may meet requirements.
// If a requirement does not name its packages, the whole catalog is searched, once for each
// content of the catalog.
func (b *catalogBrowser) findMatchingPackages(ctx context.Context, catalog *olmv1.ClusterCatalog, requirements []dependency.Requirement) ([]string, error) {
	var names []string
	var unknown []dependency.Requirement
	content := snapshotCatalog(catalog).content
	for _, r := range requirements {
		names = append(names, r.Packages()...)
		if !r.Anywhere() {
			continue
		}
		if known, ok := b.searches.get(searchKey{catalog.Name, content, r.Key()}); ok {
			names = append(names, known...)
		} else {
			unknown = append(unknown, r)
		}
	}

	if len(unknown) > 0 {
		found, err := b.searchCatalog(ctx, catalog, unknown)
		if err != nil {
			return nil, err
		}
		for i, r := range unknown {
			if content != "" {
				b.searches.add(searchKey{catalog.Name, content, r.Key()}, found[i])
			}
			names = append(names, found[i]...)
		}
	}

	slices.Sort(names)
	return slices.Compact(names), nil
}

// searchCatalog searches all bundles of a catalog. It returns, for each requirement, the packages
// that have a bundle which meets a part of it.
func (b *catalogBrowser) searchCatalog(ctx context.Context, catalog *olmv1.ClusterCatalog, requirements []dependency.Requirement) ([][]string, error) {
	found := make([][]string, len(requirements))
	for raw, err := range b.catalogs.Bundles(ctx, catalog.Status.URLs.Base) {
		if err != nil {
			return nil, reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("looking through catalog %q: %w", catalog.Name, err))
		}

		version, err := dependency.VersionOf(raw.Properties)
		if err != nil {
			continue // It cannot be resolved.
		}

		candidate := dependency.NewBundle(raw.Name, raw.Package, version, raw.Properties)
		for i := range requirements {
			if len(found[i]) < maxCandidatePackages && !slices.Contains(found[i], candidate.Package) && candidate.Matches(requirements[i:i+1]) {
				found[i] = append(found[i], candidate.Package)
			}
		}
	}

	return found, nil
}

// searchCache caches which packages of a catalog may meet a requirement. The zero value is ready
// for use.
type searchCache struct {
	mu       sync.Mutex
	packages map[searchKey][]string
}

type searchKey struct{ catalog, content, requirement string }

func (m *searchCache) get(key searchKey) ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	packages, ok := m.packages[key]
	return packages, ok
}

func (m *searchCache) add(key searchKey, packages []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packages == nil || len(m.packages) >= maxCachedSearches {
		m.packages = map[searchKey][]string{} // The entries are searched again when they are needed.
	}
	m.packages[key] = packages
}
