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
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// catalogContentReader reads the content of catalogs for an extension.
type catalogContentReader struct {
	Client client.Client
	// Cluster returns the configuration of the cluster.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is the namespace of catalogd.
	SystemNamespace string
}

// catalogContents is the content of the catalogs that an extension selects.
type catalogContents struct {
	// catalogs contain the requested package.
	catalogs []resolve.Catalog
	// packages are the sorted names of all packages.
	packages []string
	// unserved are the names of the catalogs that are not served yet.
	unserved []string
}

// readSelectedCatalogs reads the catalogs that a filter selects.
func (o *catalogContentReader) readSelectedCatalogs(ctx context.Context, filter *olmv1.CatalogFilter) (*catalogContents, error) {
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
	found := &catalogContents{}
	for i := range selected {
		catalog := &selected[i]
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) || catalog.Status.URLs == nil {
			found.unserved = append(found.unserved, catalog.Name)
			continue
		}

		content, err := fbc.LoadContent(filter.PackageName, found.recordPackageNames(reader.Metas(ctx, catalog.Name)))
		if err != nil {
			return nil, err
		}

		found.catalogs = append(found.catalogs, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}

	slices.Sort(found.packages)
	found.packages = slices.Compact(found.packages)
	return found, nil
}

// recordPackageNames yields the blobs unchanged and records the names of packages.
func (o *catalogContents) recordPackageNames(metas iter.Seq2[fbc.Meta, error]) iter.Seq2[fbc.Meta, error] {
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
