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

// lookAgain is how often it is looked whether the cluster has ClusterOperators meanwhile.
const lookAgain = 5 * time.Minute

// conflictPause is how long to wait for a change of the object that was not seen yet.
const conflictPause = time.Second

// synced is how long the first look at the object may take.
const synced = time.Minute

// Reporter keeps one ClusterOperator as the part of the cluster wants it. It watches that one
// object, so that a report that somebody removed or changed comes back, and asks for nothing while
// nothing changes. A cluster without ClusterOperators gets none.
type Reporter struct {
	// Name of the ClusterOperator.
	Name string
	// Report tells what to say now, when last was said before. It gives nil when nothing is to be said
	// yet, and after how long it wants to be asked again; zero means when something changes.
	Report func(ctx context.Context, last *configv1.ClusterOperatorStatus) (fill func(*configv1.ClusterOperatorStatus), again time.Duration, err error)

	// pause is lookAgain, but in tests.
	pause    time.Duration
	operator Operator
	manager  ctrl.Manager
	watched  cache.Cache
	watch    func(source.Source) error
	begin    sync.Mutex
}

// Wake is a handler of events by which a reporter is asked again.
func (r *Reporter) Wake() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{r.request()} })
}

func (r *Reporter) request() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: r.Name}}
}

// Setup adds the reporter to a manager. It is asked at the start, and whenever a source wakes it;
// the sources are to use the handler that Wake gives.
func (r *Reporter) Setup(mgr ctrl.Manager, sources ...source.Source) error {
	r.manager = mgr
	begin := make(chan event.GenericEvent, 1)
	begin <- event.GenericEvent{Object: &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}}
	b := ctrl.NewControllerManagedBy(mgr).Named("clusteroperator-" + r.Name).WatchesRawSource(source.Channel(begin, r.Wake()))
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

// Reconcile writes the report.
func (r *Reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	served, err := r.served(ctx)
	if err != nil || !served {
		return ctrl.Result{RequeueAfter: cmp.Or(r.pause, lookAgain)}, err
	}

	var last configv1.ClusterOperator
	if err := r.operator.Reader.Get(ctx, r.request().NamespacedName, &last); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading ClusterOperator %q: %w", r.Name, err)
	}

	fill, again, err := r.Report(ctx, &last.Status)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("ClusterOperator %q: %w", r.Name, err)
	}
	if fill == nil {
		return ctrl.Result{RequeueAfter: again}, nil
	}

	err = r.operator.Write(ctx, fill)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}

	return ctrl.Result{RequeueAfter: again}, err
}

// served reports whether the cluster has ClusterOperators, and begins to watch the one.
func (r *Reporter) served(ctx context.Context) (bool, error) {
	r.begin.Lock()
	defer r.begin.Unlock()
	if r.operator.Reader != nil {
		return true, nil
	}

	served, err := Served(r.manager.GetRESTMapper())
	if err != nil || !served {
		return false, err
	}

	if r.watched == nil {
		if err := r.observe(); err != nil {
			return false, fmt.Errorf("watching ClusterOperator %q: %w", r.Name, err)
		}
	}

	ctx, cancel := context.WithTimeout(ctx, synced)
	defer cancel()
	if !r.watched.WaitForCacheSync(ctx) {
		return false, fmt.Errorf("ClusterOperator %q cannot be watched: %w", r.Name, ctx.Err())
	}

	r.operator = Operator{Name: r.Name, Reader: r.watched, Client: r.manager.GetClient()}
	return true, nil
}

// observe begins to watch the one ClusterOperator.
func (r *Reporter) observe() error {
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
	return r.watch(source.Kind[client.Object](watched, &configv1.ClusterOperator{}, r.Wake()))
}
