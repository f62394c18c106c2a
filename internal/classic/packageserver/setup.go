package packageserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// DefaultInterval is how often catalogs are read although nothing has changed.
const DefaultInterval = 12 * time.Hour

// Options configure the component.
type Options struct {
	// GlobalNamespace is the namespace whose catalogs all namespaces see. It may be empty.
	GlobalNamespace string
	// Interval is how often a catalog is read although nothing has changed. Zero means
	// DefaultInterval. OLMConfig overrides it.
	Interval time.Duration
	// Address is the listen address, as host:port.
	Address string
	// TLS has the serving certificate.
	TLS *tls.Config
	// Access configures authentication and authorization.
	Access serve.Access
	// Authentication and Authorization are the clusters that review tokens and access. Nil
	// means the cluster of the manager.
	Authentication, Authorization *rest.Config
	// AlwaysAllow are paths that need no authentication or authorization. A trailing * matches
	// any suffix.
	AlwaysAllow []string
	// Proxy is the proxy for connections to catalogs.
	Proxy dial.Proxy
	// Pool has the connections to catalogs, if catalog-operator runs in the same process: it opens and closes them. Nil means
	// connections of its own.
	Pool *dial.Pool
	// OnListening is called with the address when the server listens. It may be nil.
	OnListening func(net.Addr)
	// Name is the name of the controller, for a process with several.
	Name string
}

// Setup adds the component to a manager.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	if options.Interval <= 0 {
		options.Interval = DefaultInterval
	}
	if options.Name == "" {
		options.Name = "packageserver"
	}

	hasOLMConfig, err := clusterHasKind(mgr, operatorsv1.OLMConfigKind)
	if err != nil {
		return err
	}

	connections := &connectionSource{}
	f := &catalogReconciler{
		reader: mgr.GetClient(), index: index.New(), clock: clock.RealClock{}, resyncInterval: options.Interval, hasOLMConfig: hasOLMConfig,
		pool: options.Pool, isPoolShared: options.Pool != nil, turns: newReadingTurns(),
		readings: map[types.NamespacedName]catalogReading{}, attempted: map[types.NamespacedName]bool{},
	}
	if f.isPoolShared {
		f.pool.OnChange(connections.enqueueCatalog)
	} else {
		f.pool = dial.New(dial.Options{OnChange: connections.enqueueCatalog, Proxy: options.Proxy})
		if err := mgr.Add(poolCloser{f.pool}); err != nil {
			return err
		}
	}

	if err := setupHTTPSServer(ctx, mgr, f, options); err != nil {
		return err
	}
	return setupCatalogReconciler(mgr, f, connections, options.Name)
}

// clusterHasKind reports whether the cluster has a kind of operators.coreos.com/v1.
func clusterHasKind(mgr manager.Manager, kind string) (bool, error) {
	gvk := operatorsv1.GroupVersion.WithKind(kind)
	_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up the kind %s: %w", kind, err)
	}

	return true, nil
}

// connectionSource is a source that enqueues a catalog when the state of its connection
// changes.
type connectionSource struct {
	mu sync.Mutex
	// queue is nil until the controller has started.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// startSource stores the queue.
func (w *connectionSource) startSource(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// enqueueCatalog enqueues a catalog. Before the controller has started it does nothing: the controller starts with all
// catalogs.
func (w *connectionSource) enqueueCatalog(catalog types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(ctrl.Request{NamespacedName: catalog})
	}
}

// setupCatalogReconciler adds the controller that reads catalogs.
func setupCatalogReconciler(mgr manager.Manager, r *catalogReconciler, connections *connectionSource, name string) error {
	needLeaderElection := false
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(&operatorsv1alpha1.CatalogSource{}).
		WatchesRawSource(source.Func(connections.startSource)).
		WithOptions(controller.Options{NeedLeaderElection: &needLeaderElection, MaxConcurrentReconciles: 4})
	if r.hasOLMConfig {
		b = b.Watches(&operatorsv1.OLMConfig{}, handler.EnqueueRequestsFromMapFunc(r.listCatalogRequests), builder.WithPredicates(newIntervalPredicate(r.resyncInterval)))
	}
	if err := b.Complete(reconcile.Func(r.reconcileCatalog)); err != nil {
		return fmt.Errorf("setting up the controller of catalogs: %w", err)
	}

	return nil
}

// listCatalogRequests is a map function that enqueues every catalog.
func (r *catalogReconciler) listCatalogRequests(ctx context.Context, _ client.Object) []ctrl.Request {
	var catalogs operatorsv1alpha1.CatalogSourceList
	if err := r.reader.List(ctx, &catalogs); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CatalogSources")
		return nil
	}

	var requests []ctrl.Request
	for i := range catalogs.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&catalogs.Items[i])})
	}

	return requests
}

// newIntervalPredicate returns a predicate for changes of the interval in OLMConfig.
func newIntervalPredicate(other time.Duration) predicate.Predicate {
	intervalOf := func(o client.Object) time.Duration {
		if config, ok := o.(*operatorsv1.OLMConfig); ok {
			return configuredInterval(config, other)
		}
		return other
	}

	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return intervalOf(e.Object) != other },
		DeleteFunc: func(e event.DeleteEvent) bool { return intervalOf(e.Object) != other },
		UpdateFunc: func(e event.UpdateEvent) bool { return intervalOf(e.ObjectOld) != intervalOf(e.ObjectNew) },
	}
}

// poolCloser closes the connections when the manager stops.
type poolCloser struct{ pool *dial.Pool }

func (poolCloser) NeedLeaderElection() bool { return false }

func (c poolCloser) Start(ctx context.Context) error {
	<-ctx.Done()
	c.pool.Close()
	return nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// setupHTTPSServer adds the HTTPS server and its authentication and authorization.
func setupHTTPSServer(ctx context.Context, mgr manager.Manager, r *catalogReconciler, options Options) error {
	delegation, err := options.Access.Delegate(ctx, cmp.Or(options.Authentication, mgr.GetConfig()), cmp.Or(options.Authorization, mgr.GetConfig()))
	if err != nil {
		return err
	}
	if err := mgr.Add(delegation); err != nil {
		return err
	}

	log := mgr.GetLogger().WithName("packageserver")
	return mgr.Add(&serve.Server{
		Address: options.Address, TLS: options.TLS, OnListening: options.OnListening, Log: log,
		Handler: &serve.Handler{
			Index: r.index, Global: options.GlobalNamespace, Ready: r.Ready, Log: log, AlwaysAllow: options.AlwaysAllow,
			Authenticator: delegation.Authenticator, Authorizer: delegation.Authorizer,
		},
	})
}
