// Package source implements the controller of CatalogSources. It creates the objects that serve
// each catalog, keeps a connection to it, polls its image, and updates the status.
//
// Package objects builds the objects of a catalog, and internal/classic/dial holds the
// connections. Resolution is not part of this package.
package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// DefaultResyncInterval is how often a catalog is reconciled although nothing has changed.
const DefaultResyncInterval = 15 * time.Minute

const (
	// fieldOwner is the field manager of the objects of catalogs.
	fieldOwner = client.FieldOwner("mainstay")
	// resyncJitterFactor and pollJitterFactor are the maximum factors by which intervals are
	// extended, so that catalogs are not all reconciled at once.
	resyncJitterFactor = 0.2
	pollJitterFactor   = 0.1
)

// Options configure the controller.
type Options struct {
	// Pool holds the connections. Required. The controller adds each catalog to it.
	Pool *dial.Pool
	// Images are the images that are run beside those of the catalogs.
	Images objects.Images
	// SetUserID sets a user ID in restricted pods, for clusters that do not assign one.
	SetUserID bool
	// ResyncInterval is how often a catalog is reconciled although nothing has changed, plus up to a
	// fifth. Zero means DefaultResyncInterval.
	ResyncInterval time.Duration
	// ServerVersion returns the version of the API server, such as v1.32.1, for image
	// templates. Required.
	ServerVersion func(context.Context) (string, error)
	// Syncs counts the results of reconciliations. It may be nil.
	Syncs *clusteroperator.Syncs
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

// reconciler reconciles CatalogSources.
type reconciler struct {
	client client.Client
	// cacheReader reads from the caches, also kinds that client reads from the API server.
	cacheReader client.Reader
	// apiReader reads from the API server.
	apiReader      client.Reader
	pool           *dial.Pool
	images         objects.Images
	setUserID      bool
	resyncInterval time.Duration
	serverVersion  func(context.Context) (string, error)
	syncs          *clusteroperator.Syncs
	clock          clock.PassiveClock
	metrics        catalogMetrics
	failedPolls    failedPolls
	lifecycle      reconcile.Lifecycle[*v1alpha1.CatalogSource]
}

func newReconciler(c client.Client, cache, reader client.Reader, o Options) (*reconciler, error) {
	if o.Pool == nil || o.ServerVersion == nil {
		return nil, errors.New("setting up the controller of CatalogSources: pool and server version are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ResyncInterval <= 0 {
		o.ResyncInterval = DefaultResyncInterval
	}

	r := &reconciler{
		client: c, cacheReader: cache, apiReader: reader, pool: o.Pool, images: o.Images, setUserID: o.SetUserID, resyncInterval: o.ResyncInterval,
		serverVersion: o.ServerVersion, syncs: o.Syncs, clock: o.Clock,
	}
	r.lifecycle = reconcile.Lifecycle[*v1alpha1.CatalogSource]{
		Client:       c,
		New:          func() *v1alpha1.CatalogSource { return &v1alpha1.CatalogSource{} },
		Steps:        []reconcile.Step[*v1alpha1.CatalogSource]{r.resolveImageTemplate, r.rejectInvalidSpec, r.ensureConfigMap, r.ensureServed, r.pollCatalogImage, r.ensureConnection},
		Summarize:    r.summarizeStatus,
		ResyncAfter:  r.requeueAfter,
		IsTransient:  isTransient,
		StatusDelays: &reconcile.StatusDelays{Clock: o.Clock},
	}

	return r, nil
}

// Reconcile reconciles one CatalogSource.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	catalog := &v1alpha1.CatalogSource{}
	err := r.client.Get(ctx, req.NamespacedName, catalog)
	if apierrors.IsNotFound(err) || (err == nil && !catalog.DeletionTimestamp.IsZero()) {
		// Its objects are garbage collected.
		r.pool.Remove(req.NamespacedName)
		r.metrics.removeCatalog(req.NamespacedName)
		r.failedPolls.remove(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading CatalogSource %s: %w", req, err)
	}

	r.metrics.recordCatalog(req.NamespacedName)
	if validateSpec(&catalog.Spec) != nil {
		r.pool.Remove(req.NamespacedName)
		r.metrics.setReadyMetric(req.NamespacedName, false)
	}

	result, err := r.lifecycle.Reconcile(ctx, req)
	r.recordSyncResult(err)
	return result, err
}

// recordSyncResult counts a reconciliation. Errors that only a user can fix and conflicts do not
// count as failures.
func (r *reconciler) recordSyncResult(err error) {
	if errors.Is(err, ctrlreconcile.TerminalError(nil)) || apierrors.IsConflict(err) {
		err = nil
	}
	r.syncs.Record(err)
}

// requeueAfter returns when a catalog is reconciled again although nothing has changed.
func (r *reconciler) requeueAfter(catalog *v1alpha1.CatalogSource) time.Duration {
	next := nextReconcileAfter(catalog, r.clock.Now(), r.resyncInterval)
	if isPolled(catalog) {
		return wait.Jitter(next, pollJitterFactor)
	}
	return wait.Jitter(next, resyncJitterFactor)
}

// summarizeStatus sets message and reason in the status.
func (r *reconciler) summarizeStatus(catalog *v1alpha1.CatalogSource, err error) {
	status := &catalog.Status
	switch {
	case apierrors.IsConflict(err):
		// The object has changed and is reconciled again at once.
	case err != nil:
		status.Message, status.Reason = err.Error(), reconcile.ReasonOf(err, v1alpha1.CatalogSourceRegistryServerError)
	case r.failedPolls.messageFor(client.ObjectKeyFromObject(catalog)) != "":
		status.Message, status.Reason = r.failedPolls.messageFor(client.ObjectKeyFromObject(catalog)), v1alpha1.CatalogSourceRegistryServerError
	case intervalProblem(catalog) != "":
		status.Message, status.Reason = intervalProblem(catalog), v1alpha1.CatalogSourceIntervalInvalidError
	default:
		status.Message, status.Reason = "", ""
	}
}

// isTransient reports whether a connection is being established, or was lost and may come back
// soon.
func isTransient(catalog *v1alpha1.CatalogSource, err error) bool {
	connection := catalog.Status.GRPCConnectionState
	if connection == nil {
		return false
	}

	switch connection.LastObservedState {
	case connectivity.Idle.String(), connectivity.Connecting.String():
		return err == nil
	case connectivity.TransientFailure.String():
		return err == nil || reconcile.IsWait(err)
	}

	return false
}
