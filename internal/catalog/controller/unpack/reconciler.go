// Package unpack is the controller that stores the content of ClusterCatalogs, updates it, and reports it in
// their status.
//
// It does not serve content. On the replicas that are not the leader, the controller of package follow
// stores the content that this controller has selected.
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

// contentStore is the part of *catalogstore.Store that the controller uses.
type contentStore interface {
	Stored(name string) (catalogstore.Info, error)
	Serves(name string) bool
	Confirm(name, ref string, at time.Time) (catalogstore.Info, error)
	Delete(name string) error
}

// fetcher stores the content of images. *fetch.Fetcher implements it.
type fetcher interface {
	Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error)
}

// resolver resolves references to digests. fetch.Puller implements it.
type resolver interface {
	Resolve(ctx context.Context, ref string) (string, error)
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list;watch;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs/status,verbs=patch

// Reconciler reconciles ClusterCatalogs.
type Reconciler struct {
	// Client reads and writes ClusterCatalogs.
	Client client.Client
	// Store contains the content.
	Store contentStore
	// Fetcher fills the store.
	Fetcher fetcher
	// Resolver resolves a tag to a digest.
	Resolver resolver
	// BaseURL returns the base URL at which the content of a catalog is served.
	BaseURL func(name string) string
	// Retrievals run requests to registries outside of the workers. The caller adds its Runnable to the
	// manager.
	Retrievals *pull.Retrievals[catalogstore.Info]
	// Clock is the source of the current time.
	Clock clock.PassiveClock

	memory catalogMemory
}

// maxConcurrentReconciles is the number of catalogs that are reconciled concurrently. No worker waits for a
// registry.
const maxConcurrentReconciles = 4

// retrievalPurpose distinguishes the retrievals of this controller from those of others that
// share its Retrievals.
const retrievalPurpose = "unpack"

// The retry interval doubles from one second, because registries rarely recover sooner, up to five minutes,
// so that the recovery of a registry is noticed soon.
const (
	minRetryInterval = time.Second
	maxRetryInterval = 5 * time.Minute
)

// SetupWithManager adds the controller to a manager. It calls subscribe with a function that enqueues a catalog
// by name.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, subscribe func(enqueue func(name string))) error {
	// The controller's own status updates do not enqueue the catalog. Otherwise, an error with a changing
	// message would be retried without backoff.
	relevantChange := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("catalog-unpack").
		For(&olmv1.ClusterCatalog{}, builder.WithPredicates(relevantChange)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrlreconcile.Request]) error {
			subscribe(func(name string) {
				queue.Add(ctrlreconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			})
			return nil
		})).
		WatchesRawSource(r.Retrievals.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             r.Retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](minRetryInterval, maxRetryInterval)),
		}).
		Complete(r.newObjectReconciler())
}

// newObjectReconciler returns the reconciler of a catalog.
func (r *Reconciler) newObjectReconciler() *reconcile.ObjectReconciler[*olmv1.ClusterCatalog, facts, *decision] {
	return &reconcile.ObjectReconciler[*olmv1.ClusterCatalog, facts, *decision]{
		Client:          r.Client,
		New:             func() *olmv1.ClusterCatalog { return &olmv1.ClusterCatalog{} },
		Finalizers:      []string{olmv1.FinalizerDeleteServerCache},
		NeedsFinalizers: isAvailable,
		Gather:          r.gatherFacts,
		Decide:          decideContent,
		Execute:         r.executeDecision,
		Report:          r.reportStatus,
		Finalize:        func(_ context.Context, catalog *olmv1.ClusterCatalog) error { return r.removeContent(catalog.Name) },
		ReportDeletion:  r.setConditions,
		ResyncAfter:     pollDelay,
	}
}

// gatherFacts reads the stored content of a catalog, and takes the result of its retrieval.
func (r *Reconciler) gatherFacts(_ context.Context, catalog *olmv1.ClusterCatalog) (facts, error) {
	f := facts{now: r.Clock.Now()}
	if !isAvailable(catalog) || catalog.Spec.Source.Image == nil {
		return f, nil
	}

	var err error
	if f.stored, err = r.storedContent(catalog.Name); err != nil {
		return f, reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	f.lastRefresh = r.memory.lastRefresh(catalog.Name)
	f.retrieved, f.retrieval, f.retrievalError = r.Retrievals.Take(catalog.Name, retrievalPurpose, retrievalRequest(catalog))
	return f, nil
}

// executeDecision sets the name label of a catalog, and removes its content or starts a retrieval, as the
// decision requires.
func (r *Reconciler) executeDecision(ctx context.Context, catalog *olmv1.ClusterCatalog, f facts, d *decision) error {
	if err := r.ensureNameLabel(ctx, catalog); err != nil {
		return err
	}
	if f.stored != nil {
		// The content can have been stored by an earlier process.
		metrics.RecordStored(catalog.Name, f.stored.Bytes, f.stored.Blobs)
	}
	if d.completesRefresh {
		r.memory.recordRefresh(catalog.Name, refreshRequest(catalog))
	}

	switch d.action {
	case actionRemove:
		return r.removeContent(catalog.Name)
	case actionRetrieve:
		r.startRetrieval(ctx, catalog, f.stored, f.isRefreshRequested(catalog))
	}

	return d.err
}

// reportStatus records the content and the outcome of a pass in the status.
func (r *Reconciler) reportStatus(catalog *olmv1.ClusterCatalog, _ facts, d *decision, err error) []reconcile.Event {
	if err == nil && d.content != nil {
		r.publishContent(catalog, *d.content)
	}
	r.setConditions(catalog, err)
	return nil
}

// ensureNameLabel sets the label that lets selectors match a catalog by name.
func (r *Reconciler) ensureNameLabel(ctx context.Context, catalog *olmv1.ClusterCatalog) error {
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

// removeContent cancels the retrievals of a catalog, waits until they have stopped, and removes the stored
// content.
func (r *Reconciler) removeContent(name string) error {
	if !r.Retrievals.Cancel(name) {
		return reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)
	}

	r.memory.forgetCatalog(name)
	metrics.ForgetCatalog(name)
	if err := r.Store.Delete(name); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	return nil
}

// startRetrieval starts a retrieval of the content of a catalog.
func (r *Reconciler) startRetrieval(ctx context.Context, catalog *olmv1.ClusterCatalog, stored *catalogstore.Info, requested bool) {
	catalog = catalog.DeepCopy()
	r.Retrievals.Start(ctx, pull.Retrieval[catalogstore.Info]{
		Name: catalog.Name, Purpose: retrievalPurpose, Request: retrievalRequest(catalog), Reference: catalog.Spec.Source.Image.Ref,
		Run: func(ctx context.Context) (catalogstore.Info, error) {
			if requested {
				// The invalid content can have been an error of the registry that is fixed now.
				r.memory.clearRejection(catalog.Name)
			}
			return r.retrieveContent(ctx, catalog, stored, requested)
		},
	})
}

// retrieveContent resolves the reference of a catalog and stores the image. It runs outside of the workers.
func (r *Reconciler) retrieveContent(ctx context.Context, catalog *olmv1.ClusterCatalog, stored *catalogstore.Info, requested bool) (catalogstore.Info, error) {
	source := catalogstore.Source{Ref: catalog.Spec.Source.Image.Ref}
	// The reference of content that was stored while another replica was the leader is not known.
	if stored == nil || stored.Ref == "" {
		source.Resolved = r.memory.pinImage(catalog.Name, source.Ref, pinnedImage(catalog))
	}

	// A pinned image is used if the content was lost, but not if a user has requested a refresh.
	if source.Resolved != "" && (stored == nil || !requested) {
		info, err := r.storeImage(ctx, catalog.Name, source, stored)
		if !fetch.IsNotFound(err) {
			return info, err
		}
		// The registry does not contain the image any more, so the tag is resolved again.
		r.memory.forgetCatalog(catalog.Name)
	}

	var err error
	if source.Resolved, err = r.Resolver.Resolve(ctx, source.Ref); err != nil {
		return catalogstore.Info{}, err
	}

	return r.storeImage(ctx, catalog.Name, source, stored)
}

// storeImage fetches an image, or confirms the stored content if it is the same image.
func (r *Reconciler) storeImage(ctx context.Context, name string, source catalogstore.Source, stored *catalogstore.Info) (catalogstore.Info, error) {
	if stored != nil && stored.Resolved == source.Resolved {
		r.memory.unpinImage(name)
		return r.Store.Confirm(name, source.Ref, r.Clock.Now())
	}
	return r.fetchImage(ctx, name, source)
}

// fetchImage fetches an image, unless its content was rejected before.
func (r *Reconciler) fetchImage(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	if err := r.memory.findRejection(name, source.Resolved); err != nil {
		return catalogstore.Info{}, err
	}

	ctrl.LoggerFrom(ctx).Info("Unpacking a catalog", "image", source.Resolved)
	info, err := r.Fetcher.Fetch(ctx, name, source)
	switch {
	case err == nil:
		r.memory.forgetCatalog(name)
	case fetch.IsContentError(err):
		r.memory.recordRejection(name, source.Resolved, err)
	}

	return info, err
}

// storedContent describes the stored content of a catalog. It returns nil if there is none or if it is damaged.
func (r *Reconciler) storedContent(name string) (*catalogstore.Info, error) {
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

// publishContent sets the status fields for the stored content.
func (r *Reconciler) publishContent(catalog *olmv1.ClusterCatalog, info catalogstore.Info) {
	// Times of the API have a resolution of seconds.
	unpacked := metav1.NewTime(info.Unpacked.Truncate(time.Second))
	catalog.Status.LastUnpacked = &unpacked
	catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{
		Type:  olmv1.SourceTypeImage,
		Image: &olmv1.ResolvedImageSource{Ref: info.Resolved},
	}
	catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: r.BaseURL(catalog.Name)}
}
