package marketplace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// catalogReconciler keeps the default catalogs as the OperatorHub wants them.
type catalogReconciler struct {
	namespace string
	defaults  *defaultCatalogs
	// client reads from a cache, and writes.
	client client.Client
	// reader reads from the API server.
	reader client.Reader
	results *resultRecorder
}

// conflictRetryInterval is how long to wait for a change that was not seen yet.
const conflictRetryInterval = time.Second

// Reconcile makes one pass over all default catalogs. A conflict is no failure: something changed that is yet
// to be seen.
func (k *catalogReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var failures []error
	isStale := false
	for _, err := range k.reconcileAll(ctx) {
		if apierrors.IsConflict(err) {
			isStale = true
		} else {
			failures = append(failures, err)
		}
	}

	err := errors.Join(failures...)
	if err == nil && isStale {
		return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	}

	k.results.record(err)
	return ctrl.Result{}, err
}

// reconcileAll returns all that went wrong.
func (k *catalogReconciler) reconcileAll(ctx context.Context) []error {
	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}
	err := k.client.Get(ctx, client.ObjectKeyFromObject(hub), hub)
	if apierrors.IsNotFound(err) {
		err = k.client.Create(ctx, hub)
	}
	if err != nil {
		return []error{fmt.Errorf("making OperatorHub %q: %w", hub.Name, err)}
	}

	failed := map[string]error{}
	var errs []error
	for _, name := range k.defaults.sortedNames() {
		if isDisabled(&hub.Spec, name) {
			err = k.removeDisabled(ctx, name)
		} else {
			err = k.ensureCatalog(ctx, k.defaults.catalogs[name])
		}
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if !apierrors.IsConflict(err) {
			failed[name] = err
		}
	}

	if err := k.patchHubStatus(ctx, hub, failed); err != nil {
		errs = append(errs, err)
	}

	return errs
}

// ensureCatalog makes a default catalog, or makes of the one that is there what it should be.
func (k *catalogReconciler) ensureCatalog(ctx context.Context, want *v1alpha1.CatalogSource) error {
	catalog := &v1alpha1.CatalogSource{}
	err := k.client.Get(ctx, client.ObjectKeyFromObject(want), catalog)
	switch {
	case apierrors.IsNotFound(err):
		err = k.client.Create(ctx, want.DeepCopy())
	case err == nil && !catalog.DeletionTimestamp.IsZero():
		return nil // It is made again once it is gone.
	case err == nil && restoreDefault(catalog, want):
		err = k.client.Update(ctx, catalog)
	}

	if err != nil {
		return fmt.Errorf("keeping CatalogSource %q: %w", want.Name, err)
	}

	return nil
}

// removeDisabled removes a default catalog that was turned off, and nothing that somebody made in its
// place.
func (k *catalogReconciler) removeDisabled(ctx context.Context, name string) error {
	catalog := &v1alpha1.CatalogSource{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, catalog)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading CatalogSource %q: %w", name, err)
	}
	if !catalog.DeletionTimestamp.IsZero() {
		return nil
	}

	// The cache may not have the status yet by which a pass before said that it is removed.
	hub := &configv1.OperatorHub{}
	if err := k.reader.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, hub); err != nil {
		return fmt.Errorf("reading OperatorHub %q: %w", configv1.OperatorHubName, err)
	}
	if !isDisabled(&hub.Spec, name) || !isDefaultCatalog(&hub.Status, catalog) {
		return nil
	}

	precondition := client.Preconditions{UID: &catalog.UID}
	if err := k.client.Delete(ctx, catalog, precondition); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing CatalogSource %q, which is turned off: %w", name, err)
	}

	return nil
}

// patchHubStatus writes the status of the OperatorHub when it has changed.
func (k *catalogReconciler) patchHubStatus(ctx context.Context, hub *configv1.OperatorHub, failed map[string]error) error {
	before := hub.DeepCopy()
	hub.Status = newHubStatus(hub, k.defaults.sortedNames(), failed)
	if equality.Semantic.DeepEqual(before.Status, hub.Status) {
		return nil
	}

	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.client.Status().Patch(ctx, hub, patch); err != nil {
		return fmt.Errorf("writing the status of OperatorHub %q: %w", hub.Name, err)
	}

	return nil
}
