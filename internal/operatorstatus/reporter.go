package operatorstatus

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// kindCheckInterval is the time between two checks whether the cluster serves ClusterOperators.
const kindCheckInterval = 5 * time.Minute

// cacheSyncTimeout limits the first synchronisation of the cache.
const cacheSyncTimeout = time.Minute

// ReportFunc gathers what a report depends on. It returns the pure function that sets the report in a status,
// which holds the last one; nil when there is nothing to report yet. after is the time until the next report; zero
// means at the next event.
type ReportFunc func(ctx context.Context, last *configv1.ClusterOperatorStatus) (fill func(*configv1.ClusterOperatorStatus), after time.Duration, err error)

// Reporter keeps the status of one ClusterOperator up to date. It watches that one object, so that
// it restores a status that others deleted or changed. It sends no requests while nothing changes. It
// writes nothing in a cluster that does not serve ClusterOperators.
type Reporter struct {
	// Name of the ClusterOperator.
	Name string
	// Report returns the report.
	Report ReportFunc
	// Reader reads the ClusterOperator at each report. Nil means that the reporter watches the object, for
	// which its program needs the permissions to list and watch it.
	Reader client.Reader
	// KindCheckInterval is the time between two checks whether the cluster serves ClusterOperators. Zero
	// means five minutes.
	KindCheckInterval time.Duration

	operator   Operator
	manager    ctrl.Manager
	watched    cache.Cache
	watch      func(source.Source) error
	watchMutex sync.Mutex
}

// EventHandler returns an event handler that enqueues the reporter.
func (r *Reporter) EventHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{r.newRequest()} })
}

func (r *Reporter) newRequest() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: r.Name}}
}

// Setup adds the reporter to a manager. It reports at the start, and after each event of the
// sources, which must use the handler that EventHandler returns.
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

// facts are what is known before a report is written.
type facts struct {
	// isServed reports whether the cluster serves ClusterOperators. If it does not, nothing else is known.
	isServed bool
	// operator is the ClusterOperator as it was read.
	operator *configv1.ClusterOperator
	// fill sets the report in a status. It is nil when there is nothing to report yet.
	fill func(*configv1.ClusterOperatorStatus)
	// after is the time until the next report.
	after time.Duration
}

// Reconcile writes the current report to the ClusterOperator.
func (r *Reporter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	controller := reconcile.KeyReconciler[facts, *configv1.ClusterOperatorStatus]{
		Gather: r.gatherFacts, Decide: decideStatus, Execute: r.writeReport,
		ResyncAfter: func(f facts, _ *configv1.ClusterOperatorStatus) time.Duration { return f.after },
	}
	return controller.Reconcile(ctx, req)
}

// gatherFacts reads the ClusterOperator, and what the report depends on.
func (r *Reporter) gatherFacts(ctx context.Context, _ types.NamespacedName) (facts, error) {
	isServed, err := r.ensureReader(ctx)
	if err != nil || !isServed {
		return facts{after: cmp.Or(r.KindCheckInterval, kindCheckInterval)}, err
	}

	operator, err := r.operator.readOperator(ctx)
	if err != nil {
		return facts{}, err
	}

	fill, after, err := r.Report(ctx, &operator.Status)
	if err != nil {
		return facts{}, fmt.Errorf("ClusterOperator %q: %w", r.Name, err)
	}

	return facts{isServed: true, operator: operator, fill: fill, after: after}, nil
}

// decideStatus returns the status that the ClusterOperator shall have. It is nil when there is nothing to report.
func decideStatus(f facts) *configv1.ClusterOperatorStatus {
	if !f.isServed || f.fill == nil {
		return nil
	}
	return applyReport(f.operator, f.fill)
}

// writeReport writes the status that was decided.
func (r *Reporter) writeReport(ctx context.Context, f facts, desired *configv1.ClusterOperatorStatus) error {
	if desired == nil {
		return nil
	}
	return r.operator.writeStatus(ctx, f.operator, desired)
}

// ensureReader makes the ClusterOperator readable, and watches it unless Reader is set. It returns false when the
// cluster does not serve the kind.
func (r *Reporter) ensureReader(ctx context.Context) (bool, error) {
	r.watchMutex.Lock()
	defer r.watchMutex.Unlock()
	if r.operator.Reader != nil {
		return true, nil
	}

	served, err := IsKindServed(r.manager.GetRESTMapper())
	if err != nil || !served {
		return false, err
	}

	reader := r.Reader
	if reader == nil {
		if reader, err = r.ensureWatch(ctx); err != nil {
			return false, err
		}
	}

	r.operator = Operator{Name: r.Name, Reader: reader, Client: r.manager.GetClient()}
	return true, nil
}

// ensureWatch returns a cache that watches the ClusterOperator and is synchronized.
func (r *Reporter) ensureWatch(ctx context.Context) (client.Reader, error) {
	if r.watched == nil {
		if err := r.startWatch(); err != nil {
			return nil, fmt.Errorf("watching ClusterOperator %q: %w", r.Name, err)
		}
	}

	ctx, cancel := context.WithTimeout(ctx, cacheSyncTimeout)
	defer cancel()
	if !r.watched.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("ClusterOperator %q cannot be watched: %w", r.Name, ctx.Err())
	}

	return r.watched, nil
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
