package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// choice is how a bundle was chosen.
type choice struct {
	request resolve.Request
	// catalogs that were chosen from. None with a result means that the bundle that is
	// there is kept.
	catalogs []resolve.Catalog
	// result is nil when nothing fits.
	result *resolve.Result
}

// choiceWithoutCatalogs returns the choice that keeps a bundle for lack of catalogs.
func choiceWithoutCatalogs(filter *olmv1.CatalogFilter, kept selection, installed *olmv1.ClusterObjectSet) choice {
	return choice{
		request: resolve.Request{
			Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
			Policy: filter.UpgradeConstraintPolicy, Installed: bundleOf(installed),
		},
		result: &resolve.Result{Bundle: fbc.Bundle{Package: filter.PackageName, Name: kept.Name, Image: kept.Image}},
	}
}

// selectedCatalogs returns the catalogs that the extension selects, whether or not they
// serve.
func (a *attempt) selectedCatalogs(ctx context.Context, ext *olmv1.ClusterExtension) ([]olmv1.ClusterCatalog, error) {
	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing catalogs: %w", err)
	}

	selected, err := resolve.SelectCatalogs(ext.Spec.Source.Catalog.Selector, list.Items)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.source.catalog.selector: %w", err))
	}

	return selected, nil
}

// servingCatalogs returns the catalogs whose content can be read.
func servingCatalogs(catalogs []olmv1.ClusterCatalog) []olmv1.ClusterCatalog {
	return slices.DeleteFunc(slices.Clone(catalogs), func(catalog olmv1.ClusterCatalog) bool {
		return !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) || catalog.Status.URLs == nil
	})
}

// readCatalogs reads what catalogs have of a package.
func (a *attempt) readCatalogs(ctx context.Context, catalogs []olmv1.ClusterCatalog, pkg string) ([]resolve.Catalog, error) {
	var result []resolve.Catalog
	for _, catalog := range catalogs {
		content, err := a.Catalogs.Content(ctx, catalog.Status.URLs.Base, pkg)
		if err != nil {
			return nil, unreadable(pkg, catalog.Name, err)
		}
		result = append(result, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}

	return result, nil
}
