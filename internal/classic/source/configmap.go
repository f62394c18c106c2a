package source

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// configMapOwner makes catalogs owners of their ConfigMaps. Only the pod of a catalog reads the content.
type configMapOwner struct {
	client client.Client
	// cacheReader reads from the caches, also kinds that client reads from the API server.
	cacheReader client.Reader
	apiReader   client.Reader
	clock       clock.PassiveClock
}

// readConfigMap reads the metadata of a catalog's ConfigMap.
func (r *configMapOwner) readConfigMap(ctx context.Context, catalog *v1alpha1.CatalogSource) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	key := client.ObjectKey{Namespace: catalog.Namespace, Name: catalog.Spec.ConfigMap}
	err := r.cacheReader.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = r.apiReader.Get(ctx, key, found) // Only labelled ConfigMaps are watched.
	}
	if err != nil {
		return nil, reconcile.Retry(v1alpha1.CatalogSourceConfigMapError, fmt.Errorf("failed to get catalog config map %s: %w", key.Name, err))
	}

	return found, nil
}

// ensureOwned labels and owns the ConfigMap of a catalog, and records it in the status.
func (r *configMapOwner) ensureOwned(ctx context.Context, catalog *v1alpha1.CatalogSource, f *facts) error {
	switch {
	case catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc:
		catalog.Status.ConfigMapResource = nil
		return nil
	case f.configMapErr != nil:
		return f.configMapErr
	}

	found := f.configMap
	if err := r.labelAndOwnConfigMap(ctx, catalog, found); err != nil {
		return reconcile.Retry(v1alpha1.CatalogSourceConfigMapError, fmt.Errorf("unable to write owner onto catalog source configmap - %w", err))
	}

	recorded, current := catalog.Status.ConfigMapResource, v1alpha1.ConfigMapResourceReference{
		Name: found.Name, Namespace: found.Namespace, UID: found.UID, ResourceVersion: found.ResourceVersion,
	}
	if recorded == nil || recorded.Name != current.Name || recorded.Namespace != current.Namespace || recorded.UID != current.UID || recorded.ResourceVersion != current.ResourceVersion {
		current.LastUpdateTime = timestampOf(r.clock)
		catalog.Status.ConfigMapResource = &current
	}

	return nil
}

// labelAndOwnConfigMap labels a ConfigMap, so that it is watched, and makes the catalog an
// owner of it.
func (r *configMapOwner) labelAndOwnConfigMap(ctx context.Context, catalog *v1alpha1.CatalogSource, found *metav1.PartialObjectMetadata) error {
	owner := (&objects.Catalog{CatalogSource: catalog}).Owner()
	owner.Controller = nil // Several catalogs may use the same ConfigMap.
	_, isLabelled := found.Labels[objects.LabelManaged]
	isOwned := objects.IsOwnedBy(found, owner)
	if isLabelled && isOwned {
		return nil
	}

	before := found.DeepCopy()
	if !isLabelled {
		if found.Labels == nil {
			found.Labels = map[string]string{}
		}
		found.Labels[objects.LabelManaged] = "false" // A user has created it.
	}

	if !isOwned {
		found.OwnerReferences = append(found.OwnerReferences, owner)
	}

	return r.client.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
