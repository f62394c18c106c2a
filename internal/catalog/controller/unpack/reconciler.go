// Package unpack is the controller that keeps the content of every ClusterCatalog
// stored, up to date and described in the catalog's status.
//
// It serves nothing. On a replica that is not the leader the controller of package
// follow stores what this one has decided on.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// contents is what the controller needs of the store: a *catalogstore.Store.
type contents interface {
	Stored(name string) (catalogstore.Info, error)
	Serves(name string) bool
	Confirm(name, ref string, at time.Time) (catalogstore.Info, error)
	Delete(name string) error
}

// fetcher stores images: a *fetch.Fetcher.
type fetcher interface {
	Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error)
}

// resolver finds digests: a fetch.Puller.
type resolver interface {
	Resolve(ctx context.Context, ref string) (string, error)
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list;watch;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs/status,verbs=patch

// Reconciler reconciles ClusterCatalogs.
type Reconciler struct {
	// Client reads and writes ClusterCatalogs.
	Client client.Client
	// Store has the content.
	Store contents
	// Fetcher fills the store.
	Fetcher fetcher
	// Resolver finds the digest of a tag.
	Resolver resolver
	// BaseURL returns the address at which a catalog's content is served.
	BaseURL func(name string) string
	// Retrievals wait for registries outside of the workers. Its Runnable is added to the
	// manager by the caller.
	Retrievals *pull.Retrievals[catalogstore.Info]
	// Clock tells the time.
	Clock clock.PassiveClock

	memory memory
}

// workers is how many catalogs are reconciled at once. None of them waits for a registry.
const workers = 4

// retrievalPurpose distinguishes the retrievals of this controller from those of others that
// share its Retrievals.
const retrievalPurpose = "unpack"

// Retries begin after a second, as registries seldom recover sooner, and are made every
// five minutes at last, so that a repaired registry is noticed within a coffee break.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// SetupWithManager adds the controller to a manager. The function is given another
// that asks for a reconciliation of a catalog by name.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, onWake func(wake func(name string))) error {
	// The controller's own changes of the status do not wake it: an error whose message
	// changes would be tried again without a pause.
	wanted := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("catalog-unpack").
		For(&olmv1.ClusterCatalog{}, builder.WithPredicates(wanted)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrlreconcile.Request]) error {
			onWake(func(name string) {
				queue.Add(ctrlreconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			})
			return nil
		})).
		WatchesRawSource(r.Retrievals.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             r.Retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](firstRetry, lastRetry)),
		}).
		Complete(r.lifecycle())
}

// lifecycle lists what is done for a catalog, in order.
func (r *Reconciler) lifecycle() *reconcile.Lifecycle[*olmv1.ClusterCatalog] {
	return &reconcile.Lifecycle[*olmv1.ClusterCatalog]{
		Client:     r.Client,
		New:        func() *olmv1.ClusterCatalog { return &olmv1.ClusterCatalog{} },
		Finalizers: []string{olmv1.FinalizerDeleteServerCache},
		Holds:      isAvailable,
		Steps: []reconcile.Step[*olmv1.ClusterCatalog]{
			r.label,
			r.withdraw,
			r.bringUpToDate,
		},
		Finalize:  []reconcile.Step[*olmv1.ClusterCatalog]{r.remove},
		Summarize: r.summarize,
		Again:     r.again,
	}
}

// label sets the label by which selectors choose a catalog by name.
func (r *Reconciler) label(ctx context.Context, catalog *olmv1.ClusterCatalog) error {
	if catalog.Labels[olmv1.LabelMetadataName] == catalog.Name {
		return nil
	}

	before := catalog.DeepCopy()
	metav1.SetMetaDataLabel(&catalog.ObjectMeta, olmv1.LabelMetadataName, catalog.Name)
	if err := r.Client.Patch(ctx, catalog, client.MergeFrom(before)); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("labelling the catalog with its name: %w", err))
	}

	return nil
}

// withdraw removes the content of a catalog that is not to be available.
func (r *Reconciler) withdraw(ctx context.Context, catalog *olmv1.ClusterCatalog) error {
	if isAvailable(catalog) {
		return nil
	}
	if err := r.remove(ctx, catalog); err != nil {
		return err
	}
	return reconcile.ErrDone
}

// remove cancels the retrievals of a catalog, waits until none can store anything any more,
// and removes the stored content.
func (r *Reconciler) remove(_ context.Context, catalog *olmv1.ClusterCatalog) error {
	if !r.Retrievals.Cancel(catalog.Name) {
		return reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)
	}

	r.memory.forget(catalog.Name)
	metrics.Forget(catalog.Name)
	if err := r.Store.Delete(catalog.Name); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	return nil
}

// bringUpToDate stores the content that the spec asks for, unless it is stored already
// and no look at the registry is due.
func (r *Reconciler) bringUpToDate(ctx context.Context, catalog *olmv1.ClusterCatalog) error {
	image := catalog.Spec.Source.Image
	if image == nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("source type %q is not known: set spec.source.type to Image and spec.source.image", catalog.Spec.Source.Type))
	}

	stored, err := r.stored(catalog.Name)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if stored != nil {
		// An earlier process may have stored it.
		metrics.Stored(catalog.Name, stored.Bytes, stored.Blobs)
	}

	request := catalog.Annotations[olmv1.AnnotationRefresh]
	requested := isRequested(request, r.memory.refreshed(catalog.Name), stored)
	isNeeded := requested || isDue(*image, stored, r.Clock.Now(), jitterOf(catalog.UID))

	info, state, err := r.Retrievals.Take(catalog.Name, retrievalPurpose, retrievalRequest(catalog))
	switch {
	case state == pull.None && !isNeeded:
		r.publish(catalog, *stored)
		return nil
	case state == pull.None:
		r.startRetrieval(ctx, catalog, stored, requested)
		return reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)
	case state == pull.Running:
		return reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)
	}

	if err == nil || fetch.IsContent(err) {
		r.memory.refresh(catalog.Name, request)
	}
	if err != nil {
		return r.failed(catalog, err)
	}

	r.publish(catalog, info)
	return nil
}

// startRetrieval starts to store what the catalog's reference gives.
func (r *Reconciler) startRetrieval(ctx context.Context, catalog *olmv1.ClusterCatalog, stored *catalogstore.Info, requested bool) {
	catalog = catalog.DeepCopy()
	r.Retrievals.Start(ctx, pull.Retrieval[catalogstore.Info]{
		Name: catalog.Name, Purpose: retrievalPurpose, Request: retrievalRequest(catalog), Reference: catalog.Spec.Source.Image.Ref,
		Run: func(ctx context.Context) (catalogstore.Info, error) {
			if requested {
				// What was found wrong may have been the registry's fault, and be mended.
				r.memory.allow(catalog.Name)
			}
			return r.retrieve(ctx, catalog, stored, requested)
		},
	})
}

// retrieve stores what the catalog's reference gives. It runs outside of the workers.
func (r *Reconciler) retrieve(ctx context.Context, catalog *olmv1.ClusterCatalog, stored *catalogstore.Info, requested bool) (catalogstore.Info, error) {
	source := catalogstore.Source{Ref: catalog.Spec.Source.Image.Ref}
	// Of what was stored while another replica led, the reference is not known.
	if stored == nil || stored.Ref == "" {
		source.Resolved = r.memory.pin(catalog.Name, source.Ref, pinned(catalog))
	}

	// Content that was lost is no reason to look at the registry, a person's wish is.
	if source.Resolved != "" && (stored == nil || !requested) {
		info, err := r.take(ctx, catalog.Name, source, stored)
		if !fetch.IsNotFound(err) {
			return info, err
		}
		// The registry has dropped it: what the tag gives now is all there is.
		r.memory.forget(catalog.Name)
	}

	var err error
	if source.Resolved, err = r.Resolver.Resolve(ctx, source.Ref); err != nil {
		return catalogstore.Info{}, err
	}

	return r.take(ctx, catalog.Name, source, stored)
}

// take stores an image, unless it is what is stored.
func (r *Reconciler) take(ctx context.Context, name string, source catalogstore.Source, stored *catalogstore.Info) (catalogstore.Info, error) {
	if stored != nil && stored.Resolved == source.Resolved {
		r.memory.unpin(name)
		return r.Store.Confirm(name, source.Ref, r.Clock.Now())
	}
	return r.fetch(ctx, name, source)
}

// fetch fetches an image, unless its content was refused before.
func (r *Reconciler) fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	if err := r.memory.refused(name, source.Resolved); err != nil {
		return catalogstore.Info{}, err
	}

	ctrl.LoggerFrom(ctx).Info("Unpacking a catalog", "image", source.Resolved)
	info, err := r.Fetcher.Fetch(ctx, name, source)
	switch {
	case err == nil:
		r.memory.forget(name)
	case fetch.IsContent(err):
		r.memory.refuse(name, source.Resolved, err)
	}

	return info, err
}

// stored describes what is stored intact, nil when that is nothing.
func (r *Reconciler) stored(name string) (*catalogstore.Info, error) {
	info, err := r.Store.Stored(name)
	var damaged *catalogstore.DamagedError
	switch {
	case err == nil:
		return &info, nil
	case errors.Is(err, catalogstore.ErrNotFound), errors.As(err, &damaged):
		return nil, nil
	default:
		return nil, err
	}
}

// publish describes the stored content in the status.
func (r *Reconciler) publish(catalog *olmv1.ClusterCatalog, info catalogstore.Info) {
	// The API keeps times in seconds.
	unpacked := metav1.NewTime(info.Unpacked.Truncate(time.Second))
	catalog.Status.LastUnpacked = &unpacked
	catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{
		Type:  olmv1.SourceTypeImage,
		Image: &olmv1.ResolvedImageSource{Ref: info.Resolved},
	}
	catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: r.BaseURL(catalog.Name)}
}

// failed says what happens after an error: what trying again may mend is tried again,
// and the rest waits for a person, or for the next poll to find another image.
func (r *Reconciler) failed(catalog *olmv1.ClusterCatalog, err error) error {
	if !fetch.IsContent(err) {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if interval := pollInterval(*catalog.Spec.Source.Image); interval > 0 {
		return reconcile.Wait(olmv1.ReasonBlocked, interval+jitter(interval, jitterOf(catalog.UID)), err)
	}
	return reconcile.Stop(olmv1.ReasonBlocked, err)
}

// again says when the registry is next looked at.
func (r *Reconciler) again(catalog *olmv1.ClusterCatalog) time.Duration {
	if !isAvailable(catalog) {
		return 0
	}

	info, err := r.Store.Stored(catalog.Name)
	if err != nil {
		// Its loss has woken the controller again.
		return 0
	}

	at := dueAt(*catalog.Spec.Source.Image, info, jitterOf(catalog.UID))
	if at.IsZero() {
		return 0
	}

	return max(at.Sub(r.Clock.Now()), time.Second)
}
