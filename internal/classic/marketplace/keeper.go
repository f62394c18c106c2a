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
	var errs []error
	f, err := r.gatherFacts(ctx)
	if err == nil {
		errs = r.execute(ctx, f, decideChanges(r.defaults, f))
	} else {
		errs = []error{err}
	}

	var failures []error
	var stale error
	for _, err := range errs {
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

// gatherFacts reads the OperatorHub and the catalogs with the names of default catalogs.
func (r *catalogReconciler) gatherFacts(ctx context.Context) (*facts, error) {
	f := &facts{hub: &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}, catalogs: map[string]*v1alpha1.CatalogSource{}}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(f.hub), f.hub); apierrors.IsNotFound(err) {
		f.lacksHub = true
	} else if err != nil {
		return f, fmt.Errorf("reading OperatorHub %q: %w", f.hub.Name, err)
	}

	for _, name := range r.defaults.sortedNames() {
		catalog := &v1alpha1.CatalogSource{}
		switch err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, catalog); {
		case err == nil:
			f.catalogs[name] = catalog
		case !apierrors.IsNotFound(err):
			return f, fmt.Errorf("reading CatalogSource %q: %w", name, err)
		}
	}

	if !hasDisabledCatalog(f) {
		return f, nil
	}

	// The cache may not have the status yet in which an earlier reconciliation recorded the
	// removal.
	f.latest = &configv1.OperatorHub{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, f.latest); err != nil {
		return f, fmt.Errorf("reading OperatorHub %q: %w", configv1.OperatorHubName, err)
	}

	return f, nil
}

// execute creates a missing OperatorHub, changes the catalogs, and patches the status. It returns all errors.
func (r *catalogReconciler) execute(ctx context.Context, f *facts, changes []catalogChange) []error {
	hub := f.hub.DeepCopy()
	if f.lacksHub {
		if err := r.client.Create(ctx, hub); err != nil {
			return []error{fmt.Errorf("creating OperatorHub %q: %w", hub.Name, err)}
		}
	}

	failed := map[string]error{}
	var errs []error
	for _, change := range changes {
		err := r.applyChange(ctx, change)
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if !reconcile.IsStale(err) {
			failed[change.catalog.Name] = err
		}
	}

	before := hub.DeepCopy()
	hub.Status = newHubStatus(hub, r.defaults.sortedNames(), failed)
	if err := reconcile.PatchStatus(ctx, r.client, hub, before); err != nil {
		errs = append(errs, err)
	}

	return errs
}

func (r *catalogReconciler) applyChange(ctx context.Context, change catalogChange) error {
	catalog := change.catalog
	var err error
	switch change.action {
	case createCatalog:
		err = r.client.Create(ctx, catalog)
	case updateCatalog:
		err = r.client.Update(ctx, catalog)
	case deleteCatalog:
		err = r.client.Delete(ctx, catalog, client.Preconditions{UID: &catalog.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting disabled CatalogSource %q: %w", catalog.Name, err)
		}
		return nil
	}

	if err != nil {
		return fmt.Errorf("restoring CatalogSource %q: %w", catalog.Name, err)
	}
	return nil
}
