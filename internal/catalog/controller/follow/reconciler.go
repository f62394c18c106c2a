// Package follow is the controller that gives every replica the content that the leader
// has decided on, so that each can serve it. It writes nothing to the API server.
//
// On the leader it finds its work done by the controller of package unpack, and does
// nothing.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// contents is what the controller needs of the store: a *catalogstore.Store.
type contents interface {
	Stored(name string) (catalogstore.Info, error)
	Delete(name string) error
}

// fetcher stores images: a *fetch.Fetcher.
type fetcher interface {
	Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error)
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list;watch

// Reconciler stores what the status of a ClusterCatalog names.
type Reconciler struct {
	// Client reads ClusterCatalogs.
	Client client.Reader
	// Store has the content.
	Store contents
	// Fetcher fills the store.
	Fetcher fetcher
	// Retrievals wait for registries outside of the workers. Its Runnable is added to the
	// manager by the caller.
	Retrievals *pull.Retrievals[catalogstore.Info]
	// Leads is closed once this replica is the leader.
	Leads <-chan struct{}
}

// workers is how many catalogs are followed at once. None of them waits for a registry.
const workers = 4

// retrievalPurpose distinguishes the retrievals of this controller from those of others that
// share its Retrievals.
const retrievalPurpose = "follow"

// Retries begin after a second and are made every five minutes at last, as the leader's
// are.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// SetupWithManager adds the controller to a manager. The function is given another
// that asks for a reconciliation of a catalog by name.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, onWake func(wake func(name string))) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("catalog-follow").
		For(&olmv1.ClusterCatalog{}).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrlreconcile.Request]) error {
			onWake(func(name string) {
				queue.Add(ctrlreconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			})
			return nil
		})).
		WatchesRawSource(r.Retrievals.Source()).
		WithOptions(controller.Options{
			NeedLeaderElection:      ptr.To(false),
			MaxConcurrentReconciles: workers,
			RateLimiter:             r.Retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](firstRetry, lastRetry)),
		}).
		Complete(r)
}

// Reconcile makes the stored content that of the catalog's status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	select {
	case <-r.Leads:
		r.Retrievals.Cancel(req.Name, retrievalPurpose)
		return ctrl.Result{}, nil
	default:
	}

	catalog := &olmv1.ClusterCatalog{}
	err := r.Client.Get(ctx, req.NamespacedName, catalog)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}

	if err != nil || !catalog.DeletionTimestamp.IsZero() || catalog.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable {
		if !r.Retrievals.Cancel(req.Name) {
			// Its end enqueues the catalog again, when nothing can be stored any more.
			return ctrl.Result{}, nil
		}
		metrics.Forget(req.Name)
		return ctrl.Result{}, r.Store.Delete(req.Name)
	}

	decided := catalog.Status.ResolvedSource
	if decided == nil || decided.Image == nil {
		return ctrl.Result{}, nil
	}

	source := catalogstore.Source{Resolved: decided.Image.Ref}
	if unpacked := catalog.Status.LastUnpacked; unpacked != nil {
		source.Since = unpacked.Time
	}

	return ctrl.Result{}, r.follow(ctx, req.Name, source)
}

// follow stores a source unless it is stored already. It starts the retrieval and returns;
// the call after its end returns the error, if there is one.
func (r *Reconciler) follow(ctx context.Context, name string, source catalogstore.Source) error {
	if _, state, err := r.Retrievals.Take(name, retrievalPurpose, source.Resolved); state != pull.None {
		if err != nil {
			return fmt.Errorf("following the leader: %w", err)
		}
		return nil
	}

	info, err := r.Store.Stored(name)
	var damaged *catalogstore.DamagedError
	switch {
	case err == nil && info.Resolved == source.Resolved:
		// An earlier process may have stored it.
		metrics.Stored(name, info.Bytes, info.Blobs)
		return nil
	case err != nil && !errors.Is(err, catalogstore.ErrNotFound) && !errors.As(err, &damaged):
		return err
	}

	// Without the reference that it was resolved from: the one in the spec may be newer.
	// If this replica becomes the leader, it looks at what the status says of it.
	//
	// What the leader has stored is good: if it is found wrong here, it was changed on the
	// way, and is tried again as any other failure.
	r.Retrievals.Start(ctx, pull.Retrieval[catalogstore.Info]{
		Name: name, Purpose: retrievalPurpose, Request: source.Resolved, Reference: source.Resolved,
		Run: func(ctx context.Context) (catalogstore.Info, error) { return r.Fetcher.Fetch(ctx, name, source) },
	})
	return nil
}
