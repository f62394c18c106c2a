package packageserver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/fetch"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// readyTime is how long a server that has just started may be waited for: a catalog that is read for
// longer does not keep the others from being served.
const readyTime = time.Minute

// fetchTime bounds the reading of one catalog. The largest take some 10 s.
const fetchTime = 10 * time.Minute

// follower keeps the index as the catalogs are.
type follower struct {
	reader client.Reader
	pool   *dial.Pool
	index  *index.Index
	clock  clock.PassiveClock
	// every is how often a catalog is read although nothing has changed, unless the cluster says
	// otherwise.
	every time.Duration
	// configured says that the cluster has the kind OLMConfig.
	configured bool

	mu    sync.Mutex
	known map[types.NamespacedName]reading
	// began is when the server was first asked whether it is ready.
	began time.Time
	// settled are the catalogs of which it has become known whether they can be read.
	settled map[types.NamespacedName]bool
	ready   atomic.Bool
}

// reading is one reading of a catalog.
type reading struct {
	at   time.Time
	what content
}

// content tells one content of a catalog from another, as far as it can be told without reading it.
type content struct {
	uid        types.UID
	generation int64
	connected  time.Time
	created    time.Time
	configMap  string
}

func contentOf(catalog *operatorsv1alpha1.CatalogSource, connected time.Time) content {
	c := content{uid: catalog.UID, generation: catalog.Generation, connected: connected}
	if service := catalog.Status.RegistryServiceStatus; service != nil {
		c.created = service.CreatedAt.Time
	}
	if m := catalog.Status.ConfigMapResource; m != nil {
		c.configMap = m.ResourceVersion
	}
	return c
}

// describe is what packages show of their catalog.
func describe(catalog *operatorsv1alpha1.CatalogSource) index.Catalog {
	return index.Catalog{
		Key: client.ObjectKeyFromObject(catalog), DisplayName: catalog.Spec.DisplayName, Publisher: catalog.Spec.Publisher,
		Priority: catalog.Spec.Priority, Labels: catalog.Labels, Created: catalog.CreationTimestamp.Time,
	}
}

// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources;olmconfigs,verbs=get;list;watch

// Reconcile brings the packages of one catalog up to date.
func (f *follower) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	var catalog operatorsv1alpha1.CatalogSource
	err := f.reader.Get(ctx, request.NamespacedName, &catalog)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return ctrl.Result{}, fmt.Errorf("reading CatalogSource %s: %w", request.NamespacedName, err)
	}
	if gone || !served(&catalog) {
		f.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}

	if err := f.pool.Set(request.NamespacedName, catalog.Address()); err != nil {
		if ctx.Err() == nil { // Else what is known is served to the end.
			log.Info("A catalog cannot be reached", "error", err.Error())
			f.forget(request.NamespacedName)
		}
		return ctrl.Result{}, nil // Once the address is another one, there is a new event.
	}

	connection, _ := f.pool.State(request.NamespacedName)
	switch connection.Connectivity {
	case connectivity.Ready:
		return f.refresh(ctx, &catalog, connection.Since)
	case connectivity.TransientFailure, connectivity.Shutdown:
		if connection.Err != nil {
			log.V(1).Info("A catalog cannot be reached", "address", connection.Address, "error", connection.Err.Error())
		}
		f.lose(request.NamespacedName)
	}

	// Else it is not known yet whether it can be reached. The connection tells.
	return ctrl.Result{}, nil
}

// served reports whether a catalog is served by something.
func served(catalog *operatorsv1alpha1.CatalogSource) bool {
	return catalog.DeletionTimestamp.IsZero() && catalog.Status.RegistryServiceStatus != nil && catalog.Address() != ""
}

// refresh reads a catalog that is connected, unless what is known of it is still right.
func (f *follower) refresh(ctx context.Context, catalog *operatorsv1alpha1.CatalogSource, connected time.Time) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(catalog)
	every, err := f.interval(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}

	what := contentOf(catalog, connected)
	f.mu.Lock()
	known, ok := f.known[key]
	f.mu.Unlock()
	now := f.clock.Now()
	if left := known.at.Add(every).Sub(now); ok && known.what == what && left > 0 {
		f.index.Describe(describe(catalog))
		return ctrl.Result{RequeueAfter: left}, nil
	}

	asked, ok := f.pool.Client(key)
	if !ok {
		return ctrl.Result{}, nil
	}

	limited, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	log := ctrl.LoggerFrom(ctx)
	packages, err := fetch.Packages(limited, asked, fetch.Limits{}, log)
	if err != nil {
		f.settle(key)
		return ctrl.Result{}, fmt.Errorf("reading catalog %s: %w", key, err)
	}

	f.index.Set(describe(catalog), packages)
	f.mu.Lock()
	f.known[key] = reading{at: now, what: what}
	f.mu.Unlock()
	f.settle(key)
	log.Info("A catalog was read", "packages", len(packages), "seconds", f.clock.Since(now).Seconds())

	return ctrl.Result{RequeueAfter: every}, nil
}

// interval is how often catalogs are read.
func (f *follower) interval(ctx context.Context) (time.Duration, error) {
	if !f.configured {
		return f.every, nil
	}

	var config operatorsv1.OLMConfig
	err := f.reader.Get(ctx, client.ObjectKey{Name: operatorsv1.OLMConfigName}, &config)
	if apierrors.IsNotFound(err) {
		return f.every, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading OLMConfig %q: %w", operatorsv1.OLMConfigName, err)
	}

	return intervalOf(&config, f.every), nil
}

func intervalOf(config *operatorsv1.OLMConfig, other time.Duration) time.Duration {
	if features := config.Spec.Features; features != nil && features.PackageServerSyncInterval != nil && features.PackageServerSyncInterval.Duration > 0 {
		return features.PackageServerSyncInterval.Duration
	}
	return other
}

// lose takes the packages of a catalog out that cannot be reached.
func (f *follower) lose(key types.NamespacedName) {
	f.index.Remove(key)
	f.mu.Lock()
	delete(f.known, key)
	f.mu.Unlock()
	f.settle(key)
}

// forget takes a catalog out that is none any more.
func (f *follower) forget(key types.NamespacedName) {
	f.pool.Remove(key)
	f.lose(key)
	f.mu.Lock()
	delete(f.settled, key)
	f.mu.Unlock()
}

// settle notes that it is known of a catalog whether it can be read.
func (f *follower) settle(key types.NamespacedName) {
	if f.ready.Load() {
		return
	}
	f.mu.Lock()
	f.settled[key] = true
	f.mu.Unlock()
}

// Ready tells why the packages are not complete yet, nil once they are. A server that has just started
// would otherwise say of packages that they do not exist.
func (f *follower) Ready() error {
	if f.ready.Load() {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var catalogs operatorsv1alpha1.CatalogSourceList
	if err := f.reader.List(ctx, &catalogs); err != nil {
		return fmt.Errorf("the catalogs of the cluster are not known yet: %w", err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		f.began = f.clock.Now()
	}

	late := f.clock.Since(f.began) >= readyTime
	for i := range catalogs.Items {
		if late {
			break
		}
		if key := client.ObjectKeyFromObject(&catalogs.Items[i]); served(&catalogs.Items[i]) && !f.settled[key] {
			return fmt.Errorf("catalog %s was not read yet", key)
		}
	}

	f.ready.Store(true)
	f.settled = map[types.NamespacedName]bool{}
	return nil
}
