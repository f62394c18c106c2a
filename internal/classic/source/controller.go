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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
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
	// Images are the images that are run in addition to those of the catalogs.
	Images objects.Images
	// SetUserID sets a user ID in restricted pods, for clusters that do not assign one.
	SetUserID bool
	// ResyncInterval is how often a catalog is reconciled although nothing has changed, plus up to a
	// fifth. Zero means DefaultResyncInterval.
	ResyncInterval time.Duration
	// Registries is used to poll images without pods. If it is nil, or if a registry does not answer, pods show the images.
	Registries Registries
	// Inline serves catalogs from within the process. If it is nil, pods serve them.
	Inline *inline.Server
	// InlineHost is the DNS name of the Service that leads to Inline from other pods. If it is empty, catalogs that
	// are served inline have no Service.
	InlineHost string
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
	client        client.Client
	serverVersion func(context.Context) (string, error)
	images        objects.Images
	setUserID     bool
	syncs         *clusteroperator.Syncs
	clock         clock.PassiveClock

	configMaps  *configMapOwner
	servers     *serverWriter
	inline      *inlineServing
	poller      *imagePoller
	connections *connector
	failedPolls *failedPolls
	schedule    schedule
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
		client: c, serverVersion: o.ServerVersion, images: o.Images, setUserID: o.SetUserID, syncs: o.Syncs, clock: o.Clock,
		configMaps: &configMapOwner{client: c, cacheReader: cache, apiReader: reader, clock: o.Clock}, failedPolls: &failedPolls{},
		schedule: schedule{resyncInterval: o.ResyncInterval, clock: o.Clock},
	}
	writer := objectWriter{client: c, apiReader: reader}
	pods := podWriter{objectWriter: writer}
	r.servers = &serverWriter{objectWriter: writer, pods: pods, failedPolls: r.failedPolls, clock: o.Clock}
	r.poller = &imagePoller{pods: pods, lookups: &digestLookups{registries: o.Registries}, failedPolls: r.failedPolls, clock: o.Clock}
	r.inline = &inlineServing{servers: r.servers, server: o.Inline, host: o.InlineHost}
	r.connections = &connector{pods: pods, inline: o.Inline, pool: o.Pool, schedule: r.schedule}

	return r, nil
}

func (r *reconciler) newObjectReconciler() *reconcile.ObjectReconciler[*v1alpha1.CatalogSource, *facts, *decision] {
	return &reconcile.ObjectReconciler[*v1alpha1.CatalogSource, *facts, *decision]{
		Client: r.client, New: func() *v1alpha1.CatalogSource { return &v1alpha1.CatalogSource{} },
		Gather: r.gatherFacts, Decide: decide, Execute: r.execute, Report: r.report, Forget: r.forgetCatalog,
		ResyncAfter: func(catalog *v1alpha1.CatalogSource, _ *facts, d *decision) time.Duration {
			return retryAfter(d.inline, r.schedule.nextReconcile(catalog))
		},
		IsTransient: isTransient, StatusDelays: &reconcile.StatusDelays{Clock: r.clock}, Observe: r.observePass,
	}
}

// observePass counts a pass. Errors that only a user can fix do not count as failures.
func (r *reconciler) observePass(err error) {
	if errors.Is(err, ctrlreconcile.TerminalError(nil)) {
		err = nil
	}
	r.syncs.Record(err)
}

// forgetCatalog ends the connection of a deleted catalog and removes its content. Its objects are garbage collected.
func (r *reconciler) forgetCatalog(_ context.Context, catalog types.NamespacedName) error {
	r.connections.removeCatalog(catalog)
	r.failedPolls.remove(catalog)
	r.poller.lookups.remove(catalog)
	return r.inline.removeContent(catalog)
}

// gatherFacts reads what the objects and the image of a catalog depend on. An error about the ConfigMap or the namespace
// is a fact: it stops the execution, but not the conditions of an image template.
func (r *reconciler) gatherFacts(ctx context.Context, catalog *v1alpha1.CatalogSource) (*facts, error) {
	f := &facts{}
	if hasImageTemplate(catalog) {
		var err error
		if f.serverVersion, err = r.serverVersion(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Reading the version of the cluster")
		}
	}

	if catalog.Spec.SourceType != v1alpha1.SourceTypeGrpc && validateSpec(&catalog.Spec) == nil {
		f.configMap, f.configMapErr = r.configMaps.readConfigMap(ctx, catalog)
	}

	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, client.ObjectKey{Name: catalog.Namespace}, namespace); err != nil {
		f.namespaceErr = fmt.Errorf("reading namespace %q: %w", catalog.Namespace, err)
	}

	f.namespaceLabels = namespace.Labels
	return f, nil
}

// execute sets a new image, or ensures the objects and the connection of a catalog. It records in the copy of the
// catalog what it did.
func (r *reconciler) execute(ctx context.Context, catalog *v1alpha1.CatalogSource, f *facts, d *decision) error {
	r.connections.metrics.recordCatalog(client.ObjectKeyFromObject(catalog))
	switch {
	case d.image != "":
		return r.setImage(ctx, catalog, d.image)
	case d.invalid != nil:
		r.connections.closeConnection(client.ObjectKeyFromObject(catalog))
		if err := r.inline.removeContent(client.ObjectKeyFromObject(catalog)); err != nil {
			return err
		}
		return reconcile.Stop(v1alpha1.CatalogSourceSpecInvalidError, d.invalid)
	}

	if err := r.configMaps.ensureOwned(ctx, d.catalog, f); err != nil {
		return err
	}
	if err := r.serveCatalog(ctx, f, d); errors.Is(err, errCatalogGone) {
		return nil
	} else if err != nil {
		return newRegistryError(err)
	}

	return r.connections.ensureConnection(ctx, d.catalog, d.inline)
}

// serveCatalog ensures the objects that serve a catalog, and polls its image.
func (r *reconciler) serveCatalog(ctx context.Context, f *facts, d *decision) error {
	c, err := r.newCatalog(d.catalog, f)
	if err != nil {
		return err
	}
	if c.IsInline {
		d.inline, err = r.inline.serveCatalog(ctx, c)
		return err
	}

	if err := r.inline.removeContent(client.ObjectKeyFromObject(d.catalog)); err != nil {
		return err
	}
	if err := r.servers.ensureServed(ctx, c); err != nil {
		return err
	}

	return r.poller.pollCatalogImage(ctx, c)
}

// setImage sets the image of a catalog to the result of its template. The update triggers another reconciliation.
func (r *reconciler) setImage(ctx context.Context, catalog *v1alpha1.CatalogSource, image string) error {
	changed := catalog.DeepCopy()
	changed.Spec.Image = image
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(catalog, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("updating the image from its template: %w", err)
	}
	return nil
}

// newCatalog returns the input for building the objects of a catalog.
func (r *reconciler) newCatalog(catalog *v1alpha1.CatalogSource, f *facts) (*objects.Catalog, error) {
	c := &objects.Catalog{CatalogSource: catalog, Images: r.images, SetUserID: r.setUserID, IsInline: r.inline.isInline(catalog), InlineHost: r.inline.host}
	if c.IsServed() && c.NameTooLong() {
		return nil, reconcile.Stop("", errors.New("the name of a catalog with a pod has at most 63 characters: create the catalog with a shorter name"))
	}
	if flag := c.MissingImage(); flag != "" && !c.IsInline {
		return nil, reconcile.Stop("", fmt.Errorf("catalog-operator is not configured for this type of catalog: start it with %s", flag))
	}
	if reference := catalog.Status.ConfigMapResource; reference != nil {
		c.ConfigMapVersion = reference.ResourceVersion
	}

	if f.namespaceErr != nil {
		return nil, f.namespaceErr
	}

	c.NamespaceLabels = f.namespaceLabels
	return c, nil
}

// report sets the status that decision and execution have determined, with message and reason.
func (r *reconciler) report(catalog *v1alpha1.CatalogSource, _ *facts, d *decision, err error) []reconcile.Event {
	if d != nil {
		catalog.Status = d.catalog.Status
	}

	status := &catalog.Status
	switch {
	case reconcile.IsStale(err):
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

	return nil
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
