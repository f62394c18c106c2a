package action

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// catalogOffers reads what the catalogs of a cluster offer to an extension.
type catalogOffers struct {
	Client client.Client
	// Cluster returns the connection to the cluster.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is that of catalogd.
	SystemNamespace string
}

// offers is what the catalogs that an extension selects hold.
type offers struct {
	// catalogs have the content of the package.
	catalogs []resolve.Catalog
	// packages are the names of all packages, sorted.
	packages []string
	// unserved are the catalogs that cannot be read yet.
	unserved []string
}

// read reads the catalogs that a filter selects.
func (o *catalogOffers) read(ctx context.Context, filter *olmv1.CatalogFilter) (*offers, error) {
	var list olmv1.ClusterCatalogList
	if err := o.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing catalogs: %w", err)
	}

	selected, err := resolve.SelectCatalogs(filter.Selector, list.Items)
	if err != nil {
		return nil, fmt.Errorf("spec.source.catalog.selector: %w", err)
	}

	config, err := o.Cluster()
	if err != nil {
		return nil, err
	}

	reader := &clustercatalog.Reader{Config: config, SystemNamespace: o.SystemNamespace}
	found := &offers{}
	for i := range selected {
		catalog := &selected[i]
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) || catalog.Status.URLs == nil {
			found.unserved = append(found.unserved, catalog.Name)
			continue
		}

		content, err := fbc.LoadContent(filter.PackageName, found.notePackages(reader.Metas(ctx, catalog.Name)))
		if err != nil {
			return nil, err
		}

		found.catalogs = append(found.catalogs, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}

	slices.Sort(found.packages)
	found.packages = slices.Compact(found.packages)
	return found, nil
}

// notePackages collects the names of the packages that pass by.
func (o *offers) notePackages(metas iter.Seq2[fbc.Meta, error]) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for m, err := range metas {
			if err == nil && m.Schema == fbc.SchemaPackage {
				o.packages = append(o.packages, m.Name)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}
