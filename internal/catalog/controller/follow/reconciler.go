// Package follow is the controller that stores the content that the leader has selected on every other
// replica, so that each replica can serve it. It does not write to the API server.
//
// On the leader, the controller of package unpack stores the content, and this controller does nothing.
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

// contentStore is the part of *catalogstore.Store that the controller uses.
type contentStore interface {
	Stored(name string) (catalogstore.Info, error)
	Delete(name string) error
}

// fetcher stores the content of images. *fetch.Fetcher implements it.
type fetcher interface {
	Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error)
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list;watch

// Reconciler stores the content of the image in the status of a ClusterCatalog.
type Reconciler struct {
	// Client reads ClusterCatalogs.
	Client client.Reader
	// Store contains the content.
	Store contentStore
	// Fetcher fills the store.
	Fetcher fetcher
	// Retrievals run requests to registries outside of the workers. The caller adds its Runnable to the
	// manager.
	Retrievals *pull.Retrievals[catalogstore.Info]
	// Elected is closed when this replica becomes the leader.
	Elected <-chan struct{}
}

// maxConcurrentReconciles is the number of catalogs that are reconciled concurrently. No worker waits for a
// registry.
const maxConcurrentReconciles = 4

// retrievalPurpose distinguishes the retrievals of this controller from those of others that
// share its Retrievals.
const retrievalPurpose = "follow"

// The retry interval doubles from one second up to five minutes, as on the leader.
const (
	minRetryInterval = time.Second
	maxRetryInterval = 5 * time.Minute
)

// SetupWithManager adds the controller to a manager. It calls subscribe with a function that enqueues a catalog
// by name.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, subscribe func(enqueue func(name string))) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("catalog-follow").
		For(&olmv1.ClusterCatalog{}).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrlreconcile.Request]) error {
			subscribe(func(name string) {
				queue.Add(ctrlreconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			})
			return nil
		})).
		WatchesRawSource(r.Retrievals.Source()).
		WithOptions(controller.Options{
			NeedLeaderElection:      ptr.To(false),
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             r.Retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](minRetryInterval, maxRetryInterval)),
		}).
		Complete(r)
}

// Reconcile ensures that the content of the image in the status of a catalog is stored.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	select {
	case <-r.Elected:
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
			// The catalog is enqueued again when the retrieval has stopped.
			return ctrl.Result{}, nil
		}
		metrics.ForgetCatalog(req.Name)
		return ctrl.Result{}, r.Store.Delete(req.Name)
	}

	resolved := catalog.Status.ResolvedSource
	if resolved == nil || resolved.Image == nil {
		return ctrl.Result{}, nil
	}

	source := catalogstore.Source{Resolved: resolved.Image.Ref}
	if unpacked := catalog.Status.LastUnpacked; unpacked != nil {
		source.Since = unpacked.Time
	}

	return ctrl.Result{}, r.ensureStored(ctx, req.Name, source)
}

// ensureStored starts the retrieval of a source unless it is stored already. It does not wait for the
// retrieval. The first call after the retrieval returns its error.
func (r *Reconciler) ensureStored(ctx context.Context, name string, source catalogstore.Source) error {
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
		// The content can have been stored by an earlier process.
		metrics.RecordStored(name, info.Bytes, info.Blobs)
		return nil
	case err != nil && !errors.Is(err, catalogstore.ErrNotFound) && !errors.As(err, &damaged):
		return err
	}

	// The source does not contain the reference that it was resolved from, because the reference in the
	// spec can be newer. If this replica becomes the leader, it uses the status instead.
	//
	// The leader has stored the content successfully. If it is invalid here, it was changed in transit,
	// and the retrieval is retried like any other failure.
	r.Retrievals.Start(ctx, pull.Retrieval[catalogstore.Info]{
		Name: name, Purpose: retrievalPurpose, Request: source.Resolved, Reference: source.Resolved,
		Run: func(ctx context.Context) (catalogstore.Info, error) { return r.Fetcher.Fetch(ctx, name, source) },
	})
	return nil
}
