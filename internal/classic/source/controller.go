// Package source is the controller of CatalogSources: it has each catalog be served and keeps the
// connection to it, polls its image, and says in the status how all that is.
//
// What a catalog's objects look like is in objects, and the connections are in
// internal/classic/dial. Choosing from catalogs is not done here.
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

// DefaultResync is how often a catalog is looked at although nothing has happened.
const DefaultResync = 15 * time.Minute

const (
	// fieldOwner writes the objects of catalogs.
	fieldOwner = client.FieldOwner("mainstay")
	// resyncJitter and pollJitter are by how much a look comes later, at most, so that not all
	// catalogs are looked at at once.
	resyncJitter = 0.2
	pollJitter   = 0.1
)

// Options configure the controller.
type Options struct {
	// Pool holds the connections. Required. The controller puts each catalog into it.
	Pool *dial.Pool
	// Images are those that are run beside the ones that catalogs name.
	Images objects.Images
	// SetUserID has confined pods run as a user of their own, where nobody else sets one.
	SetUserID bool
	// Resync is how often a catalog is looked at although nothing has happened, give or take a
	// fifth. Zero means DefaultResync.
	Resync time.Duration
	// ServerVersion tells the version of the API server, such as v1.32.1, for templates of images.
	// Required.
	ServerVersion func(context.Context) (string, error)
	// Syncs counts how passes end. It may be nil.
	Syncs *clusteroperator.Syncs
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// reconciler looks after catalogs.
type reconciler struct {
	client client.Client
	// cache is the watches' view also of what client reads from the API server.
	cache client.Reader
	// reader reads from the API server.
	reader        client.Reader
	pool          *dial.Pool
	images        objects.Images
	setUserID     bool
	resync        time.Duration
	serverVersion func(context.Context) (string, error)
	syncs         *clusteroperator.Syncs
	clock         clock.PassiveClock
	metrics       metrics
	failedPolls   failedPolls
	lifecycle     reconcile.Lifecycle[*v1alpha1.CatalogSource]
}

func newReconciler(c client.Client, cache, reader client.Reader, o Options) (*reconciler, error) {
	if o.Pool == nil || o.ServerVersion == nil {
		return nil, errors.New("setting up the controller of CatalogSources: pool and server version are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Resync <= 0 {
		o.Resync = DefaultResync
	}

	r := &reconciler{
		client: c, cache: cache, reader: reader, pool: o.Pool, images: o.Images, setUserID: o.SetUserID, resync: o.Resync,
		serverVersion: o.ServerVersion, syncs: o.Syncs, clock: o.Clock,
	}
	r.lifecycle = reconcile.Lifecycle[*v1alpha1.CatalogSource]{
		Client:    c,
		New:       func() *v1alpha1.CatalogSource { return &v1alpha1.CatalogSource{} },
		Steps:     []reconcile.Step[*v1alpha1.CatalogSource]{r.template, r.validate, r.configMap, r.serve, r.poll, r.connect},
		Summarize: r.summarize,
		Again:     r.again,
		Passing:   isPassing,
		Later:     &reconcile.Later{Clock: o.Clock},
	}

	return r, nil
}

// Reconcile looks after one catalog.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	catalog := &v1alpha1.CatalogSource{}
	err := r.client.Get(ctx, req.NamespacedName, catalog)
	if apierrors.IsNotFound(err) || (err == nil && !catalog.DeletionTimestamp.IsZero()) {
		// Its objects go with it, by their owner.
		r.pool.Remove(req.NamespacedName)
		r.metrics.gone(req.NamespacedName)
		r.failedPolls.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading CatalogSource %s: %w", req, err)
	}

	r.metrics.seen(req.NamespacedName)
	if check(&catalog.Spec) != nil {
		r.pool.Remove(req.NamespacedName)
		r.metrics.ready(req.NamespacedName, false)
	}

	result, err := r.lifecycle.Reconcile(ctx, req)
	r.count(err)
	return result, err
}

// count counts a pass. What only a person can put right is no failure of the program, nor is that
// somebody else was quicker.
func (r *reconciler) count(err error) {
	if errors.Is(err, ctrlreconcile.TerminalError(nil)) || apierrors.IsConflict(err) {
		err = nil
	}
	r.syncs.Seen(err)
}

// again says when a catalog is looked at although nothing has happened.
func (r *reconciler) again(catalog *v1alpha1.CatalogSource) time.Duration {
	next := nextLook(catalog, r.clock.Now(), r.resync)
	if polls(catalog) {
		return wait.Jitter(next, pollJitter)
	}
	return wait.Jitter(next, resyncJitter)
}

// summarize writes the outcome of a pass into the status.
func (r *reconciler) summarize(catalog *v1alpha1.CatalogSource, err error) {
	status := &catalog.Status
	switch {
	case apierrors.IsConflict(err):
		// Somebody was quicker. What was found is looked at again at once.
	case err != nil:
		status.Message, status.Reason = err.Error(), reconcile.ReasonOf(err, v1alpha1.CatalogSourceRegistryServerError)
	case r.failedPolls.of(client.ObjectKeyFromObject(catalog)) != "":
		status.Message, status.Reason = r.failedPolls.of(client.ObjectKeyFromObject(catalog)), v1alpha1.CatalogSourceRegistryServerError
	case intervalProblem(catalog) != "":
		status.Message, status.Reason = intervalProblem(catalog), v1alpha1.CatalogSourceIntervalInvalidError
	default:
		status.Message, status.Reason = "", ""
	}
}

// isPassing says that a connection is only being made, or that it was lost and may be back soon.
func isPassing(catalog *v1alpha1.CatalogSource, err error) bool {
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
