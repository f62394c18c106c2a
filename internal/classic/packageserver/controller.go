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
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// maxReadinessDelay is how long readiness waits for catalogs after the first probe. One catalog
// that takes longer to read must not keep the others from being served.
const maxReadinessDelay = time.Minute

// fetchTimeout limits the reading of one catalog. The largest take about 10 s.
const fetchTimeout = 10 * time.Minute

// catalogReconciler keeps the index up to date with the catalogs.
type catalogReconciler struct {
	reader client.Reader
	pool   *dial.Pool
	// isPoolShared is set if another component opens and closes the connections.
	isPoolShared bool
	index        *index.Index
	// turns limits how many catalogs are read at the same time.
	turns readingTurns
	clock clock.PassiveClock
	// resyncInterval is how often a catalog is read although nothing has changed, unless
	// OLMConfig sets another interval.
	resyncInterval time.Duration
	// hasOLMConfig is set if the cluster has the kind OLMConfig.
	hasOLMConfig bool

	mu       sync.Mutex
	readings map[types.NamespacedName]catalogReading
	// firstProbe is the time of the first readiness probe.
	firstProbe time.Time
	// attempted are the catalogs that were read or could not be read.
	attempted map[types.NamespacedName]bool
	ready     atomic.Bool
}

// catalogReading is the last reading of a catalog.
type catalogReading struct {
	readAt time.Time
	state  catalogState
}

// catalogState is the state of a catalog as far as it is known without reading it. If it is
// unchanged, so is the content.
type catalogState struct {
	uid        types.UID
	generation int64
	connected  time.Time
	created    time.Time
	configMap  string
}

// catalogStateOf returns the state of a catalog that has been connected since a time.
func catalogStateOf(catalog *operatorsv1alpha1.CatalogSource, connected time.Time) catalogState {
	c := catalogState{uid: catalog.UID, generation: catalog.Generation, connected: connected}
	if service := catalog.Status.RegistryServiceStatus; service != nil {
		c.created = service.CreatedAt.Time
	}
	if m := catalog.Status.ConfigMapResource; m != nil {
		c.configMap = m.ResourceVersion
	}
	return c
}

// newIndexCatalog returns the fields of a CatalogSource that its packages show.
func newIndexCatalog(catalog *operatorsv1alpha1.CatalogSource) index.Catalog {
	return index.Catalog{
		Key: client.ObjectKeyFromObject(catalog), DisplayName: catalog.Spec.DisplayName, Publisher: catalog.Spec.Publisher,
		Priority: catalog.Spec.Priority, Labels: catalog.Labels, Created: catalog.CreationTimestamp.Time,
	}
}

// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources;olmconfigs,verbs=list;watch

// reconcileCatalog updates the packages of one catalog in the index. It returns when to read the catalog again.
func (r *catalogReconciler) reconcileCatalog(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	var catalog operatorsv1alpha1.CatalogSource
	err := r.reader.Get(ctx, key, &catalog)
	isGone := apierrors.IsNotFound(err)
	if err != nil && !isGone {
		return 0, fmt.Errorf("reading CatalogSource %s: %w", key, err)
	}
	if isGone || !hasRegistryServer(&catalog) {
		r.removeCatalog(key)
		return 0, nil
	}

	if err := r.openConnection(&catalog); err != nil {
		if ctx.Err() == nil { // On shutdown the known packages are served until the end.
			ctrl.LoggerFrom(ctx).Info("Cannot connect to catalog", "error", err.Error())
			r.removeCatalog(key)
		}
		return 0, nil // A change of the address triggers a new event.
	}

	connection, _ := r.pool.State(key)
	switch connection.Connectivity {
	case connectivity.Ready:
		return r.refreshCatalog(ctx, &catalog, connection.Since)
	case connectivity.TransientFailure, connectivity.Shutdown:
		if connection.Err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Cannot connect to catalog", "address", connection.Address, "error", connection.Err.Error())
		}
		r.removePackages(key)
	}

	// Otherwise the connection is being established. A change of its state enqueues the
	// catalog.
	return 0, nil
}

// openConnection opens the connection to a catalog, unless it is open or another component opens it.
func (r *catalogReconciler) openConnection(catalog *operatorsv1alpha1.CatalogSource) error {
	if r.isPoolShared {
		return nil
	}
	return r.pool.Set(client.ObjectKeyFromObject(catalog), catalog.Address())
}

// hasRegistryServer reports whether a catalog has a registry server.
func hasRegistryServer(catalog *operatorsv1alpha1.CatalogSource) bool {
	return catalog.DeletionTimestamp.IsZero() && catalog.Status.RegistryServiceStatus != nil && catalog.Address() != ""
}

// refreshCatalog reads a connected catalog, unless its packages are up to date. It returns when to read the catalog
// again.
func (r *catalogReconciler) refreshCatalog(ctx context.Context, catalog *operatorsv1alpha1.CatalogSource, connected time.Time) (time.Duration, error) {
	key := client.ObjectKeyFromObject(catalog)
	interval, err := r.readResyncInterval(ctx)
	if err != nil {
		return 0, err
	}

	state, now := catalogStateOf(catalog, connected), r.clock.Now()
	r.mu.Lock()
	last, isKnown := r.readings[key]
	r.mu.Unlock()
	if remaining := last.remainingValidity(state, interval, now); isKnown && remaining > 0 {
		r.index.UpdateCatalog(newIndexCatalog(catalog))
		return remaining, nil
	}

	catalogClient, ok := r.pool.Client(key)
	if !ok {
		return 0, nil
	}

	packages, err := r.readPackages(ctx, catalogClient)
	if err != nil {
		r.markAttempted(key)
		return 0, fmt.Errorf("reading catalog %s: %w", key, err)
	}

	r.index.Set(newIndexCatalog(catalog), packages)
	r.mu.Lock()
	r.readings[key] = catalogReading{readAt: now, state: state}
	r.mu.Unlock()
	r.markAttempted(key)

	return interval, nil
}

// readPackages waits for its turn and reads the packages of a catalog.
func (r *catalogReconciler) readPackages(ctx context.Context, catalogClient registrypb.RegistryClient) ([]*index.Package, error) {
	turn, err := r.turns.beginTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer turn.endTurn()

	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	log, began := ctrl.LoggerFrom(ctx), r.clock.Now()
	packages, err := fetch.ReadPackages(ctx, catalogClient, fetch.Options{OnResponse: turn.extendTurn, Log: log})
	if err != nil {
		return nil, err
	}

	log.Info("Read catalog", "packages", len(packages), "seconds", r.clock.Since(began).Seconds())
	return packages, nil
}

// remainingValidity returns how long the packages of a reading are up to date; zero or less when the catalog must be read
// again, because its state has changed or the interval has passed.
func (r catalogReading) remainingValidity(state catalogState, interval time.Duration, now time.Time) time.Duration {
	if r.state != state {
		return 0
	}
	return r.readAt.Add(interval).Sub(now)
}

// readResyncInterval returns how often catalogs are read, from OLMConfig or else from the
// options.
func (r *catalogReconciler) readResyncInterval(ctx context.Context) (time.Duration, error) {
	if !r.hasOLMConfig {
		return r.resyncInterval, nil
	}

	var config operatorsv1.OLMConfig
	err := r.reader.Get(ctx, client.ObjectKey{Name: operatorsv1.OLMConfigName}, &config)
	if apierrors.IsNotFound(err) {
		return r.resyncInterval, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading OLMConfig %q: %w", operatorsv1.OLMConfigName, err)
	}

	return configuredInterval(&config, r.resyncInterval), nil
}

// configuredInterval returns the interval in OLMConfig, or other if it has none.
func configuredInterval(config *operatorsv1.OLMConfig, other time.Duration) time.Duration {
	if features := config.Spec.Features; features != nil && features.PackageServerSyncInterval != nil && features.PackageServerSyncInterval.Duration > 0 {
		return features.PackageServerSyncInterval.Duration
	}
	return other
}

// removePackages removes the packages of a catalog that cannot be reached.
func (r *catalogReconciler) removePackages(key types.NamespacedName) {
	r.index.Remove(key)
	r.mu.Lock()
	delete(r.readings, key)
	r.mu.Unlock()
	r.markAttempted(key)
}

// removeCatalog removes a catalog that was deleted or has no server.
func (r *catalogReconciler) removeCatalog(key types.NamespacedName) {
	if !r.isPoolShared {
		r.pool.Remove(key)
	}
	r.removePackages(key)
	r.mu.Lock()
	delete(r.attempted, key)
	r.mu.Unlock()
}

// markAttempted records that a catalog was read or cannot be read, for Ready.
func (r *catalogReconciler) markAttempted(key types.NamespacedName) {
	if r.ready.Load() {
		return
	}
	r.mu.Lock()
	r.attempted[key] = true
	r.mu.Unlock()
}

// Ready returns why the packages are not complete yet, or nil. Without it, a server that has
// just started would answer that packages do not exist.
func (r *catalogReconciler) Ready() error {
	if r.ready.Load() {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var catalogs operatorsv1alpha1.CatalogSourceList
	if err := r.reader.List(ctx, &catalogs); err != nil {
		return fmt.Errorf("listing CatalogSources: %w", err)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstProbe.IsZero() {
		r.firstProbe = r.clock.Now()
	}

	late := r.clock.Since(r.firstProbe) >= maxReadinessDelay
	for i := range catalogs.Items {
		if late {
			break
		}
		if key := client.ObjectKeyFromObject(&catalogs.Items[i]); hasRegistryServer(&catalogs.Items[i]) && !r.attempted[key] {
			return fmt.Errorf("catalog %s has not been read yet", key)
		}
	}

	r.ready.Store(true)
	r.attempted = map[types.NamespacedName]bool{}
	return nil
}
