package packageserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
)

// DefaultInterval is how often catalogs are read although nothing has changed.
const DefaultInterval = 12 * time.Hour

// Options are what the component is set up with.
type Options struct {
	// GlobalNamespace is the namespace whose catalogs all namespaces see. Empty stands for none.
	GlobalNamespace string
	// Interval is how often a catalog is read although nothing has changed. Zero means DefaultInterval.
	// OLMConfig overrides it.
	Interval time.Duration
	// Address is where packages are served, as host:port.
	Address string
	// TLS has the certificate that they are served with.
	TLS *tls.Config
	// Access says who may see them.
	Access serve.Access
	// Authentication is asked who it is that asks, and Authorization what they may do. Nil stands for the
	// cluster of the manager.
	Authentication, Authorization *rest.Config
	// AlwaysAllow are paths that are answered whoever asks. One that ends in * stands for all that
	// begin like it.
	AlwaysAllow []string
	// Proxy is between here and the catalogs.
	Proxy dial.Proxy
	// Listening, if set, is told the address once packages are served.
	Listening func(net.Addr)
	// Name is that of the controller, for a process with several.
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

	configured, err := has(mgr, operatorsv1.OLMConfigKind)
	if err != nil {
		return err
	}

	wake := &waker{}
	f := &follower{
		reader: mgr.GetClient(), index: index.New(), clock: clock.RealClock{}, every: options.Interval, configured: configured,
		pool:  dial.New(dial.Options{Changed: wake.wake, Proxy: options.Proxy}),
		known: map[types.NamespacedName]reading{}, settled: map[types.NamespacedName]bool{},
	}
	if err := setupServer(ctx, mgr, f, options); err != nil {
		return err
	}
	if err := mgr.Add(closing{f.pool}); err != nil {
		return err
	}

	return follow(mgr, f, wake, options.Name)
}

// has reports whether the cluster has a kind of operators.coreos.com/v1.
func has(mgr manager.Manager, kind string) (bool, error) {
	of := operatorsv1.GroupVersion.WithKind(kind)
	_, err := mgr.GetRESTMapper().RESTMapping(of.GroupKind(), of.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the kind %s: %w", kind, err)
	}

	return true, nil
}

// waker has a catalog be looked at again when its connection changes.
type waker struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// start is called before the first catalog is looked at, and so before there are connections.
func (w *waker) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.queue = queue
	return nil
}

func (w *waker) wake(catalog types.NamespacedName) {
	w.queue.Add(reconcile.Request{NamespacedName: catalog})
}

// follow has the follower look at catalogs.
func follow(mgr manager.Manager, f *follower, wake *waker, name string) error {
	everywhere := false
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(&operatorsv1alpha1.CatalogSource{}).
		WatchesRawSource(source.Func(wake.start)).
		WithOptions(controller.Options{NeedLeaderElection: &everywhere, MaxConcurrentReconciles: 4})
	if f.configured {
		b = b.Watches(&operatorsv1.OLMConfig{}, handler.EnqueueRequestsFromMapFunc(f.all), builder.WithPredicates(intervalChanges(f.every)))
	}
	if err := b.Complete(f); err != nil {
		return fmt.Errorf("setting up the reading of catalogs: %w", err)
	}

	return nil
}

// all names every catalog.
func (f *follower) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var catalogs operatorsv1alpha1.CatalogSourceList
	if err := f.reader.List(ctx, &catalogs); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CatalogSources")
		return nil
	}

	var requests []reconcile.Request
	for i := range catalogs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&catalogs.Items[i])})
	}

	return requests
}

// intervalChanges lets changes of the interval through.
func intervalChanges(other time.Duration) predicate.Predicate {
	of := func(o client.Object) time.Duration {
		if config, ok := o.(*operatorsv1.OLMConfig); ok {
			return intervalOf(config, other)
		}
		return other
	}

	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return of(e.Object) != other },
		DeleteFunc: func(e event.DeleteEvent) bool { return of(e.Object) != other },
		UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) },
	}
}

// closing closes the connections when the manager ends.
type closing struct{ pool *dial.Pool }

func (closing) NeedLeaderElection() bool { return false }

func (c closing) Start(ctx context.Context) error {
	<-ctx.Done()
	c.pool.Close()
	return nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// setupServer adds what answers to requests.
func setupServer(ctx context.Context, mgr manager.Manager, f *follower, options Options) error {
	delegation, err := options.Access.Delegate(ctx, cmp.Or(options.Authentication, mgr.GetConfig()), cmp.Or(options.Authorization, mgr.GetConfig()))
	if err != nil {
		return err
	}
	if err := mgr.Add(delegation); err != nil {
		return err
	}

	log := mgr.GetLogger().WithName("packageserver")
	return mgr.Add(&serve.Server{
		Address: options.Address, TLS: options.TLS, Listening: options.Listening, Log: log,
		Handler: &serve.Handler{
			Index: f.index, Global: options.GlobalNamespace, Ready: f.Ready, Log: log, AlwaysAllow: options.AlwaysAllow,
			Authenticator: delegation.Authenticator, Authorizer: delegation.Authorizer,
		},
	})
}
