// Package follow is the controller that stores the content that the leader has selected on every other
// replica, so that each replica can serve it. It does not write to the API server.
//
// On the leader, the controller of package unpack stores the content, and this controller does nothing.
package follow

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/mainstay-dev/mainstay/internal/reconcile"
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

// Reconcile runs one pass over a catalog.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	controller := reconcile.KeyReconciler[facts, decision]{Gather: r.gatherFacts, Decide: decideContent, Execute: r.executeDecision}
	return controller.Reconcile(ctx, req)
}

// gatherFacts reads a catalog and its stored content, and takes the result of its retrieval.
func (r *Reconciler) gatherFacts(ctx context.Context, key types.NamespacedName) (facts, error) {
	f := facts{name: key.Name}
	select {
	case <-r.Elected:
		f.isLeader = true
		return f, nil
	default:
	}

	catalog := &olmv1.ClusterCatalog{}
	err := r.Client.Get(ctx, key, catalog)
	switch {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return f, err
	}

	f.catalog = catalog
	wanted := wantedSource(catalog)
	if !isOffered(catalog) || wanted == nil {
		return f, nil
	}

	if _, f.retrieval, f.retrievalError = r.Retrievals.Take(key.Name, retrievalPurpose, wanted.Resolved); f.retrieval != pull.None {
		return f, nil
	}

	info, err := r.Store.Stored(key.Name)
	var damaged *catalogstore.DamagedError
	switch {
	case err == nil:
		f.stored = &info
	case !errors.Is(err, catalogstore.ErrNotFound) && !errors.As(err, &damaged):
		return f, err
	}

	return f, nil
}

// executeDecision does to the content of a catalog what was decided. It does not wait for a retrieval.
func (r *Reconciler) executeDecision(ctx context.Context, f facts, d decision) error {
	switch d.action {
	case actionLeave:
		r.Retrievals.Cancel(f.name, retrievalPurpose)
	case actionRemove:
		if !r.Retrievals.Cancel(f.name) {
			// The catalog is enqueued again when the retrieval has stopped.
			return nil
		}
		metrics.ForgetCatalog(f.name)
		return r.Store.Delete(f.name)
	case actionKeep:
		// The content can have been stored by an earlier process.
		metrics.RecordStored(f.name, f.stored.Bytes, f.stored.Blobs)
	case actionRetrieve:
		r.startRetrieval(ctx, f.name, d.source)
	}

	return d.err
}

// startRetrieval starts the retrieval of a source.
//
// The leader has stored the content successfully. If it is invalid here, it was changed in transit, and the
// retrieval is retried like any other failure.
func (r *Reconciler) startRetrieval(ctx context.Context, name string, source catalogstore.Source) {
	r.Retrievals.Start(ctx, pull.Retrieval[catalogstore.Info]{
		Name: name, Purpose: retrievalPurpose, Request: source.Resolved, Reference: source.Resolved,
		Run: func(ctx context.Context) (catalogstore.Info, error) { return r.Fetcher.Fetch(ctx, name, source) },
	})
}
