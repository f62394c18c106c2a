package version

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
)

// Notifications holds the channels by which components signal changes that the controller reports.
type Notifications struct {
	// Worker, Updates and Acceptor are the channels of the respective component.
	Worker, Updates, Acceptor <-chan struct{}
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options, news Notifications) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	gates, err := newGatesCache(mgr)
	if err != nil {
		return err
	}

	out := make(chan event.GenericEvent, 1)
	r := &eventRelay{status: o.Worker.Status, progress: news.Worker, updates: news.Updates, accepted: news.Acceptor, out: out, clock: o.Clock}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("setting up the controller of ClusterVersion: %w", err)
	}

	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: configv1.ClusterVersionName}}
	toOne := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} }
	enqueue := handler.EnqueueRequestsFromMapFunc(toOne)
	err = ctrl.NewControllerManagedBy(mgr).
		Named("clusterversion").
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &configv1.ClusterVersion{}, &handler.EnqueueRequestForObject{}, isClusterVersion, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &configv1.ClusterOperator{}, enqueue, upgradeableChanged)).
		WatchesRawSource(source.Kind[client.Object](gates, &corev1.ConfigMap{}, enqueue)).
		WatchesRawSource(source.Channel(out, enqueue)).
		WatchesRawSource(enqueueAtStart(request)).
		Complete(New(mgr.GetClient(), gates, mgr.GetAPIReader(), o))
	if err != nil {
		return fmt.Errorf("setting up the controller of ClusterVersion: %w", err)
	}

	return nil
}

// enqueueAtStart enqueues a request once. Without a ClusterVersion no watch would enqueue one.
func enqueueAtStart(request reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(request)
		return nil
	})
}

// newGatesCache returns a cache of the two ConfigMaps of gates.
func newGatesCache(mgr ctrl.Manager) (cache.Cache, error) {
	only := func(name string) cache.Config {
		return cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}
	}
	gates, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			risk.GatesNamespace: only(risk.GatesName), risk.AcksNamespace: only(risk.AcksName),
		}}},
	})
	if err == nil {
		err = mgr.Add(gates)
	}
	if err != nil {
		return nil, fmt.Errorf("setting up the watch of gates: %w", err)
	}

	return gates, nil
}

var isClusterVersion = predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == configv1.ClusterVersionName })

// upgradeableChanged is a predicate that selects ClusterOperators whose Upgradeable condition
// changed.
var upgradeableChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return upgradeableCondition(e.Object).Status != "" },
	DeleteFunc: func(e event.DeleteEvent) bool { return upgradeableCondition(e.Object).Status != "" },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := upgradeableCondition(e.ObjectOld), upgradeableCondition(e.ObjectNew)
		return was.Status != is.Status || was.Message != is.Message
	},
}

func upgradeableCondition(object client.Object) condition {
	operator, ok := object.(*configv1.ClusterOperator)
	if !ok {
		return condition{}
	}
	word, _ := (&conditionSet{all: operator.Status.Conditions}).get(configv1.OperatorUpgradeable)
	return word
}

// Reader returns a function that reads the ClusterVersion.
func Reader(reader client.Reader) func(ctx context.Context) (*configv1.ClusterVersion, error) {
	return func(ctx context.Context) (*configv1.ClusterVersion, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cv := &configv1.ClusterVersion{}
		if err := reader.Get(ctx, client.ObjectKey{Name: configv1.ClusterVersionName}, cv); err != nil {
			return nil, err
		}

		return cv, nil
	}
}
