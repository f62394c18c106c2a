package operatorstatus

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// kindCheckInterval is the time between two checks whether the cluster serves ClusterOperators.
const kindCheckInterval = 5 * time.Minute

// conflictRetryInterval is how long to wait after a conflict for the newer object to reach the cache.
const conflictRetryInterval = time.Second

// cacheSyncTimeout limits the first synchronisation of the cache.
const cacheSyncTimeout = time.Minute

// Reporter keeps the status of one ClusterOperator up to date. It watches that one object, so that
// it restores a status that others deleted or changed. It sends no requests while nothing changes. It
// writes nothing in a cluster that does not serve ClusterOperators.
type Reporter struct {
	// Name of the ClusterOperator.
	Name string
	// Report returns the function that sets the current status, given the last reported one. It
	// returns nil when there is nothing to report yet. again is the time until the next report; zero
	// means at the next event.
	Report func(ctx context.Context, last *configv1.ClusterOperatorStatus) (fill func(*configv1.ClusterOperatorStatus), again time.Duration, err error)

	// kindCheckInterval overrides the constant in tests.
	kindCheckInterval time.Duration
	operator          Operator
	manager           ctrl.Manager
	watched           cache.Cache
	watch             func(source.Source) error
	watchMutex        sync.Mutex
}

// EventHandler returns an event handler that enqueues the reporter.
func (r *Reporter) EventHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{r.newRequest()} })
}

func (r *Reporter) newRequest() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: r.Name}}
}

// Setup adds the reporter to a manager. It reports at the start, and after each event of the
// sources, which must use the handler that Wake returns.
func (r *Reporter) Setup(mgr ctrl.Manager, sources ...source.Source) error {
	r.manager = mgr
	begin := make(chan event.GenericEvent, 1)
	begin <- event.GenericEvent{Object: &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}}
	b := ctrl.NewControllerManagedBy(mgr).Named("clusteroperator-" + r.Name).WatchesRawSource(source.Channel(begin, r.EventHandler()))
	for _, s := range sources {
		b = b.WatchesRawSource(s)
	}

	c, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", r.Name, err)
	}

	r.watch = c.Watch
	return nil
}

// Reconcile writes the current report to the ClusterOperator.
func (r *Reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	served, err := r.ensureWatch(ctx)
	if err != nil || !served {
		return ctrl.Result{RequeueAfter: cmp.Or(r.kindCheckInterval, kindCheckInterval)}, err
	}

	var last configv1.ClusterOperator
	if err := r.operator.Reader.Get(ctx, r.newRequest().NamespacedName, &last); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading ClusterOperator %q: %w", r.Name, err)
	}

	fill, again, err := r.Report(ctx, &last.Status)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("ClusterOperator %q: %w", r.Name, err)
	}
	if fill == nil {
		return ctrl.Result{RequeueAfter: again}, nil
	}

	err = r.operator.PatchStatus(ctx, fill)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	}

	return ctrl.Result{RequeueAfter: again}, err
}

// ensureWatch starts the watch of the ClusterOperator. It returns false when the cluster does not serve
// the kind.
func (r *Reporter) ensureWatch(ctx context.Context) (bool, error) {
	r.watchMutex.Lock()
	defer r.watchMutex.Unlock()
	if r.operator.Reader != nil {
		return true, nil
	}

	served, err := IsKindServed(r.manager.GetRESTMapper())
	if err != nil || !served {
		return false, err
	}

	if r.watched == nil {
		if err := r.startWatch(); err != nil {
			return false, fmt.Errorf("watching ClusterOperator %q: %w", r.Name, err)
		}
	}

	ctx, cancel := context.WithTimeout(ctx, cacheSyncTimeout)
	defer cancel()
	if !r.watched.WaitForCacheSync(ctx) {
		return false, fmt.Errorf("ClusterOperator %q cannot be watched: %w", r.Name, ctx.Err())
	}

	r.operator = Operator{Name: r.Name, Reader: r.watched, Client: r.manager.GetClient()}
	return true, nil
}

// startWatch starts a cache with the one ClusterOperator, and watches it.
func (r *Reporter) startWatch() error {
	watched, err := cache.New(r.manager.GetConfig(), cache.Options{
		Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(), HTTPClient: r.manager.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{
			&configv1.ClusterOperator{}: {Field: fields.OneTermEqualSelector("metadata.name", r.Name)},
		},
	})
	if err != nil {
		return err
	}
	if err := r.manager.Add(watched); err != nil {
		return err
	}

	r.watched = watched
	return r.watch(source.Kind[client.Object](watched, &configv1.ClusterOperator{}, r.EventHandler()))
}
