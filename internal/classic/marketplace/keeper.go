package marketplace

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// catalogReconciler reconciles the default catalogs with the OperatorHub.
type catalogReconciler struct {
	namespace string
	defaults  *defaultCatalogs
	// client reads from a cache, and writes.
	client client.Client
	// reader reads from the API server.
	reader  client.Reader
	results *resultRecorder
}

// reconcileCatalogs reconciles all default catalogs and the status. Conflicts are not failures: they are caused by
// changes that the cache does not have yet.
func (r *catalogReconciler) reconcileCatalogs(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
	var failures []error
	var stale error
	for _, err := range r.reconcileAll(ctx) {
		if reconcile.IsStale(err) {
			stale = err
		} else {
			failures = append(failures, err)
		}
	}

	if err := errors.Join(failures...); err != nil || stale == nil {
		r.results.recordResult(err)
		return 0, err
	}

	return 0, stale
}

// reconcileAll reconciles all default catalogs and the status, and returns all errors.
func (r *catalogReconciler) reconcileAll(ctx context.Context) []error {
	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(hub), hub)
	if apierrors.IsNotFound(err) {
		err = r.client.Create(ctx, hub)
	}
	if err != nil {
		return []error{fmt.Errorf("creating OperatorHub %q: %w", hub.Name, err)}
	}

	failed := map[string]error{}
	var errs []error
	for _, name := range r.defaults.sortedNames() {
		if isSourceDisabled(&hub.Spec, name) {
			err = r.removeDisabled(ctx, name)
		} else {
			err = r.ensureCatalog(ctx, r.defaults.catalogs[name])
		}
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if !reconcile.IsStale(err) {
			failed[name] = err
		}
	}

	before := hub.DeepCopy()
	hub.Status = newHubStatus(hub, r.defaults.sortedNames(), failed)
	if err := reconcile.PatchStatus(ctx, r.client, hub, before); err != nil {
		errs = append(errs, err)
	}

	return errs
}

// ensureCatalog creates or restores a default catalog.
func (r *catalogReconciler) ensureCatalog(ctx context.Context, want *v1alpha1.CatalogSource) error {
	catalog := &v1alpha1.CatalogSource{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(want), catalog)
	switch {
	case apierrors.IsNotFound(err):
		err = r.client.Create(ctx, want.DeepCopy())
	case err == nil && !catalog.DeletionTimestamp.IsZero():
		return nil // It is recreated when it is deleted.
	case err == nil && restoreDefault(catalog, want):
		err = r.client.Update(ctx, catalog)
	}

	if err != nil {
		return fmt.Errorf("restoring CatalogSource %q: %w", want.Name, err)
	}

	return nil
}

// removeDisabled deletes a disabled default catalog. It keeps a catalog that a user has created
// instead.
func (r *catalogReconciler) removeDisabled(ctx context.Context, name string) error {
	catalog := &v1alpha1.CatalogSource{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, catalog)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading CatalogSource %q: %w", name, err)
	}
	if !catalog.DeletionTimestamp.IsZero() {
		return nil
	}

	// The cache may not have the status yet in which an earlier reconciliation recorded the
	// removal.
	hub := &configv1.OperatorHub{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, hub); err != nil {
		return fmt.Errorf("reading OperatorHub %q: %w", configv1.OperatorHubName, err)
	}
	if !isSourceDisabled(&hub.Spec, name) || !isDefaultCatalog(&hub.Status, catalog) {
		return nil
	}

	precondition := client.Preconditions{UID: &catalog.UID}
	if err := r.client.Delete(ctx, catalog, precondition); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting disabled CatalogSource %q: %w", name, err)
	}

	return nil
}
