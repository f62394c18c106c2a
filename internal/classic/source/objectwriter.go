package source

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// objectWriter creates and repairs the objects of catalogs.
type objectWriter struct {
	client client.Client
	// apiReader reads from the API server.
	apiReader client.Reader
}

// ensureObject creates an object or repairs the existing one. fix updates live and reports
// whether it has changed.
func ensureObject[T client.Object](ctx context.Context, w objectWriter, reader client.Reader, want, live T, fix func(live, want T) bool) error {
	key := client.ObjectKeyFromObject(want)
	owner := want.GetOwnerReferences()[0]
	err := reader.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		if err = w.createOwnedObject(ctx, want); err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", kindName(want), key, err)
		}
		err = w.apiReader.Get(ctx, key, live) // An object that has lost its labels is not in the cache.
	}

	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kindName(want), key, err)
	}
	if objects.IsForeign(live, owner) {
		return reconcile.Stop("", fmt.Errorf("%s %s already exists and does not belong to this catalog: delete it, or create the catalog with another name", kindName(want), key))
	}

	before := live.DeepCopyObject().(client.Object)
	if !fix(live, want) {
		return nil
	}
	if err := w.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("repairing %s %s: %w", kindName(want), key, err)
	}

	return nil
}

// errCatalogGone is the error for a catalog that was deleted, which an outdated cache does not have yet. Its objects are
// missing because they were garbage collected.
var errCatalogGone = errors.New("the catalog was deleted")

// createOwnedObject creates an object of a catalog. It returns errCatalogGone if the catalog was deleted.
func (w objectWriter) createOwnedObject(ctx context.Context, want client.Object) error {
	owner := want.GetOwnerReferences()[0]
	catalog := &metav1.PartialObjectMetadata{}
	catalog.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.CatalogSourceKind))
	err := w.apiReader.Get(ctx, client.ObjectKey{Namespace: want.GetNamespace(), Name: owner.Name}, catalog)
	if apierrors.IsNotFound(err) || (err == nil && (catalog.UID != owner.UID || !catalog.DeletionTimestamp.IsZero())) {
		return errCatalogGone
	}
	if err != nil {
		return fmt.Errorf("reading CatalogSource %q: %w", owner.Name, err)
	}

	return w.client.Create(ctx, want, fieldOwner)
}

// kindName returns the kind of an object for messages.
func kindName(object client.Object) string {
	switch object.(type) {
	case *corev1.Service:
		return "Service"
	case *corev1.ServiceAccount:
		return "ServiceAccount"
	case *networkingv1.NetworkPolicy:
		return "NetworkPolicy"
	case *rbacv1.Role:
		return "Role"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	}

	return "object"
}
