package source

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// configMap looks at the ConfigMap of a catalog, and has it be watched and go with the catalog.
// Only its metadata is read: the content is for the pod.
func (r *reconciler) configMap(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	if catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc {
		catalog.Status.ConfigMapResource = nil
		return nil
	}

	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	key := client.ObjectKey{Namespace: catalog.Namespace, Name: catalog.Spec.ConfigMap}
	err := r.cache.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = r.reader.Get(ctx, key, found) // Only what is labelled is watched.
	}
	if err != nil {
		return reconcile.Retry(v1alpha1.CatalogSourceConfigMapError, fmt.Errorf("failed to get catalog config map %s: %w", key.Name, err))
	}
	if err := r.keepConfigMap(ctx, catalog, found); err != nil {
		return reconcile.Retry(v1alpha1.CatalogSourceConfigMapError, fmt.Errorf("unable to write owner onto catalog source configmap - %w", err))
	}

	was, is := catalog.Status.ConfigMapResource, v1alpha1.ConfigMapResourceReference{
		Name: found.Name, Namespace: found.Namespace, UID: found.UID, ResourceVersion: found.ResourceVersion,
	}
	if was == nil || was.Name != is.Name || was.Namespace != is.Namespace || was.UID != is.UID || was.ResourceVersion != is.ResourceVersion {
		is.LastUpdateTime = r.now()
		catalog.Status.ConfigMapResource = &is
	}

	return nil
}

// keepConfigMap labels a ConfigMap, for it to be watched, and makes the catalog its owner.
func (r *reconciler) keepConfigMap(ctx context.Context, catalog *v1alpha1.CatalogSource, found *metav1.PartialObjectMetadata) error {
	owner := (&objects.Catalog{CatalogSource: catalog}).Owner()
	owner.Controller = nil // Several catalogs may have the same one.
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
		found.Labels[objects.LabelManaged] = "false" // It is a person's.
	}

	if !isOwned {
		found.OwnerReferences = append(found.OwnerReferences, owner)
	}

	return r.client.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
