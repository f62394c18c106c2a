package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	chosen selection
	// deprecations are the conditions that state what is deprecated. It is empty if the current
	// bundle is kept.
	deprecations []metav1.Condition
	// err is why no bundle was chosen.
	err error
}

// resolutionWithoutCatalogs returns the resolution that keeps a bundle for lack of catalogs.
func resolutionWithoutCatalogs(filter *olmv1.CatalogFilter, kept, installed *olmv1.ClusterObjectSet) *resolution {
	chosen := selectionFromRevision(kept)
	return &resolution{
		request: resolve.Request{
			Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
			Policy: filter.UpgradeConstraintPolicy, Installed: bundleMetadata(installed),
		},
		result: &resolve.Result{Bundle: fbc.Bundle{Package: filter.PackageName, Name: chosen.Name, Image: chosen.Image}},
		chosen: chosen,
	}
}

// resolutionFromCatalogs resolves a bundle from the content of catalogs.
func resolutionFromCatalogs(request resolve.Request, catalogs []resolve.Catalog, installed *olmv1.ClusterObjectSet) *resolution {
	result, err := resolve.Resolve(request, catalogs)
	if err != nil {
		return &resolution{request: request, catalogs: catalogs, err: reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, err)}
	}

	chosen := selection{
		Name: result.Bundle.Name, Version: result.Version.String(), Release: result.Release, Image: result.Bundle.Image,
		catalog: result.Catalog, properties: result.Bundle.Properties,
	}
	return &resolution{
		request: request, catalogs: catalogs, result: result, chosen: chosen.pinnedToInstalled(installed),
		deprecations: resolve.DeprecationConditions(result.Deprecations, request.Channels, result.Bundle.Name),
	}
}

// catalogBrowser reads the catalogs that extensions select.
type catalogBrowser struct {
	client   client.Reader
	catalogs CatalogReader
	searches *searchCache
}

// resolveBundle resolves the bundle of an extension from the selected catalogs. If no catalog is
// selected, it keeps the bundle of the current revision.
func (b *catalogBrowser) resolveBundle(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions, runsOn func(minKubeVersion string) bool) *resolution {
	selected, err := b.listSelectedCatalogs(ctx, ext)
	if err != nil {
		return &resolution{err: err}
	}

	filter, installed := ext.Spec.Source.Catalog, revs.installed()
	if kept := revs.findRevisionToKeep(filter.Version); len(selected) == 0 && kept != nil {
		return resolutionWithoutCatalogs(filter, kept, installed)
	}

	catalogs, err := b.readPackageFromCatalogs(ctx, filterServingCatalogs(selected), filter.PackageName)
	if err != nil {
		return &resolution{err: err}
	}

	return resolutionFromCatalogs(resolve.Request{
		Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
		Policy: filter.UpgradeConstraintPolicy, Installed: bundleMetadata(installed), RunsOn: runsOn,
	}, catalogs, installed)
}

// listSelectedCatalogs returns the catalogs that the extension selects. They may not be serving.
func (b *catalogBrowser) listSelectedCatalogs(ctx context.Context, ext *olmv1.ClusterExtension) ([]olmv1.ClusterCatalog, error) {
	var list olmv1.ClusterCatalogList
	if err := b.client.List(ctx, &list); err != nil {
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
func (b *catalogBrowser) readPackageFromCatalogs(ctx context.Context, catalogs []olmv1.ClusterCatalog, pkg string) ([]resolve.Catalog, error) {
	var result []resolve.Catalog
	for _, catalog := range catalogs {
		content, err := b.catalogs.Content(ctx, catalog.Status.URLs.Base, pkg)
		if err != nil {
			return nil, newPackageReadError(pkg, catalog.Name, err)
		}
		result = append(result, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}

	return result, nil
}
