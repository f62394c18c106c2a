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

// resolution is the request that a bundle was resolved by, and its result.
type resolution struct {
	request resolve.Request
	// catalogs are the catalogs that were searched. If there are none but there is a result, the
	// current bundle is kept.
	catalogs []resolve.Catalog
	// result is nil if no bundle matches.
	result *resolve.Result
}

// resolutionWithoutCatalogs returns the resolution that keeps a bundle for lack of catalogs.
func resolutionWithoutCatalogs(filter *olmv1.CatalogFilter, kept selection, installed *olmv1.ClusterObjectSet) resolution {
	return resolution{
		request: resolve.Request{
			Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
			Policy: filter.UpgradeConstraintPolicy, Installed: bundleMetadata(installed),
		},
		result: &resolve.Result{Bundle: fbc.Bundle{Package: filter.PackageName, Name: kept.Name, Image: kept.Image}},
	}
}

// listSelectedCatalogs returns the catalogs that the extension selects. They may not be serving.
func (a *attempt) listSelectedCatalogs(ctx context.Context, ext *olmv1.ClusterExtension) ([]olmv1.ClusterCatalog, error) {
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

// filterServingCatalogs returns the catalogs whose content is served.
func filterServingCatalogs(catalogs []olmv1.ClusterCatalog) []olmv1.ClusterCatalog {
	return slices.DeleteFunc(slices.Clone(catalogs), func(catalog olmv1.ClusterCatalog) bool {
		return !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) || catalog.Status.URLs == nil
	})
}

// readPackageFromCatalogs reads the content of a package from each catalog.
func (a *attempt) readPackageFromCatalogs(ctx context.Context, catalogs []olmv1.ClusterCatalog, pkg string) ([]resolve.Catalog, error) {
	var result []resolve.Catalog
	for _, catalog := range catalogs {
		content, err := a.Catalogs.Content(ctx, catalog.Status.URLs.Base, pkg)
		if err != nil {
			return nil, newPackageReadError(pkg, catalog.Name, err)
		}
		result = append(result, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}

	return result, nil
}
