package subscription

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// annotationManagedBy is set on the default catalogs of an OperatorHub.
const annotationManagedBy = "operatorframework.io/managed-by"

// IsDefaultCatalog reports whether a CatalogSource is an enabled default catalog of an OperatorHub.
func IsDefaultCatalog(hub *configv1.OperatorHub, catalog *v1alpha1.CatalogSource) bool {
	if catalog.Annotations[annotationManagedBy] != "marketplace-operator" {
		return false
	}
	return slices.ContainsFunc(hub.Status.Sources, func(s configv1.HubSourceStatus) bool { return s.Name == catalog.Name && !s.Disabled })
}

// isFromDefaultCatalog reports whether a package is in an enabled default catalog. It returns false if the user may not read
// that.
func isFromDefaultCatalog(ctx context.Context, c client.Client, pkg *packagesv1.PackageManifest) bool {
	hub := &configv1.OperatorHub{}
	if err := c.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, hub); err != nil {
		return false
	}

	catalog := &v1alpha1.CatalogSource{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: pkg.Status.CatalogSourceNamespace, Name: pkg.Status.CatalogSource}, catalog); err != nil {
		return false
	}
	return IsDefaultCatalog(hub, catalog)
}
