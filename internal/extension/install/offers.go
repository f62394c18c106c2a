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
	// maxLevels bounds how far dependencies of dependencies are followed.
	maxLevels = 8
	// maxPackages bounds the packages of one catalog that are looked at for the
	// dependencies of one bundle: at about 100 KB each, 20 MB.
	maxPackages = 200
	// maxRemembered bounds the answers that are remembered: some 200 bytes each.
	maxRemembered = 4096
)

// offers is what catalogs have for the requirements of a bundle.
type offers struct {
	selected []olmv1.ClusterCatalog
	// contents are what each catalog says of packages, by the names of both.
	contents map[string]map[string]*fbc.Content
}

// catalogs returns the offers for a search.
func (o *offers) catalogs() []dependency.Catalog {
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

// of returns what the catalogs say of one package.
func (o *offers) of(pkg string) []resolve.Catalog {
	var result []resolve.Catalog
	for i := range o.selected {
		c := &o.selected[i]
		result = append(result, resolve.Catalog{Name: c.Name, Priority: c.Spec.Priority, Content: o.contents[c.Name][pkg]})
	}
	return result
}

// offersFor reads, of the catalogs that an extension selects, the packages that may meet
// requirements; with deep also those that these packages need, and so on.
func (a *attempt) offersFor(ctx context.Context, ext *olmv1.ClusterExtension, unmet []dependency.Unmet, deep bool) (*offers, error) {
	selected, err := a.selectedCatalogs(ctx, ext)
	if err != nil {
		return nil, err
	}

	selected = servingCatalogs(selected)
	o := &offers{selected: selected, contents: map[string]map[string]*fbc.Content{}}
	var frontier []dependency.Requirement
	for _, u := range unmet {
		frontier = append(frontier, u.Requirement)
	}

	seen := map[string]bool{}
	levels := 1
	if deep {
		levels = maxLevels
	}

	for level := 0; level < levels && len(frontier) > 0; level++ {
		var next []dependency.Requirement
		for i := range selected {
			names, err := a.packagesFor(ctx, &selected[i], frontier)
			if err != nil {
				return nil, err
			}
			if level == 0 && deep { // Other versions of the package itself are good advice.
				names = append(names, ext.Spec.Source.Catalog.PackageName)
			}

			found, err := a.readPackages(ctx, &selected[i], o, names)
			if err != nil {
				return nil, err
			}

			next = append(next, requirementsOf(found, seen)...)
		}
		frontier = next
	}

	return o, nil
}

// readPackages reads packages of a catalog that were not read yet, and gives those.
func (a *attempt) readPackages(ctx context.Context, catalog *olmv1.ClusterCatalog, o *offers, names []string) ([]*fbc.Content, error) {
	known := o.contents[catalog.Name]
	if known == nil {
		known = map[string]*fbc.Content{}
		o.contents[catalog.Name] = known
	}

	var found []*fbc.Content
	for _, name := range names {
		if _, ok := known[name]; ok || len(known) >= maxPackages {
			continue
		}

		content, err := a.Catalogs.Content(ctx, catalog.Status.URLs.Base, name)
		if err != nil {
			return nil, unreadable(name, catalog.Name, err)
		}

		known[name] = content
		found = append(found, content)
	}

	return found, nil
}

func unreadable(pkg, catalog string, err error) error {
	return reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("reading package %q from catalog %q: %w", pkg, catalog, err))
}

// requirementsOf returns the requirements of bundles that were not seen before.
func requirementsOf(contents []*fbc.Content, seen map[string]bool) []dependency.Requirement {
	var found []dependency.Requirement
	for _, content := range contents {
		for i := range content.Bundles {
			requirements, err := dependency.Parse(content.Bundles[i].Properties)
			if err != nil {
				continue // It cannot be chosen.
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

// packagesFor names the packages of a catalog that may meet requirements. Those that are
// not named by a requirement are found by going through the whole catalog, once for each
// content of it.
func (a *attempt) packagesFor(ctx context.Context, catalog *olmv1.ClusterCatalog, requirements []dependency.Requirement) ([]string, error) {
	var names []string
	var unknown []dependency.Requirement
	content := offer(catalog).content
	for _, r := range requirements {
		names = append(names, r.Packages()...)
		if !r.Anywhere() {
			continue
		}
		if known, ok := a.answers.get(answerKey{catalog.Name, content, r.Key()}); ok {
			names = append(names, known...)
		} else {
			unknown = append(unknown, r)
		}
	}

	if len(unknown) > 0 {
		found, err := a.searchCatalog(ctx, catalog, unknown)
		if err != nil {
			return nil, err
		}
		for i, r := range unknown {
			if content != "" {
				a.answers.put(answerKey{catalog.Name, content, r.Key()}, found[i])
			}
			names = append(names, found[i]...)
		}
	}

	slices.Sort(names)
	return slices.Compact(names), nil
}

// searchCatalog goes through a catalog for bundles that meet some part of each
// requirement, and names their packages.
func (a *attempt) searchCatalog(ctx context.Context, catalog *olmv1.ClusterCatalog, requirements []dependency.Requirement) ([][]string, error) {
	found := make([][]string, len(requirements))
	for raw, err := range a.Catalogs.Bundles(ctx, catalog.Status.URLs.Base) {
		if err != nil {
			return nil, reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("looking through catalog %q: %w", catalog.Name, err))
		}

		version, err := dependency.VersionOf(raw.Properties)
		if err != nil {
			continue // It cannot be chosen.
		}

		b := dependency.NewBundle(raw.Name, raw.Package, version, raw.Properties)
		for i := range requirements {
			if len(found[i]) < maxPackages && !slices.Contains(found[i], b.Package) && b.Matches(requirements[i:i+1]) {
				found[i] = append(found[i], b.Package)
			}
		}
	}

	return found, nil
}

// answers remembers which packages of a catalog may meet a requirement. The zero value is
// ready for use.
type answers struct {
	mu    sync.Mutex
	known map[answerKey][]string
}

type answerKey struct{ catalog, content, requirement string }

func (m *answers) get(key answerKey) ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	packages, ok := m.known[key]
	return packages, ok
}

func (m *answers) put(key answerKey, packages []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxRemembered {
		m.known = map[answerKey][]string{} // It is found again.
	}
	m.known[key] = packages
}
