package source

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// maxConcurrentReconciles is how many catalogs are reconciled concurrently.
const maxConcurrentReconciles = 2

// minRetryInterval is the first retry interval after a failure. It grows exponentially.
const minRetryInterval = 200 * time.Millisecond

// Catalogs run in any namespace: as a pod behind a Service, with a service account that can
// read the ConfigMap of the catalog. Caches select these kinds by labels of catalogs, but RBAC
// rules cannot select labels.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch

// Cached returns the cache configuration for the kinds that this controller watches: of each
// kind only the objects of catalogs are cached.
func Cached() map[client.Object]cache.ByObject {
	withLabel := func(label string) cache.ByObject {
		requirement, _ := labels.NewRequirement(label, selection.Exists, nil) // The labels are constants.
		return cache.ByObject{Label: labels.NewSelector().Add(*requirement)}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                 withLabel(objects.LabelCatalog),
		&corev1.Service{}:             withLabel(objects.LabelServiceHash),
		&corev1.ServiceAccount{}:      {Label: labels.SelectorFromSet(labels.Set{objects.LabelManaged: "true"})},
		&corev1.ConfigMap{}:           withLabel(objects.LabelManaged),
		&networkingv1.NetworkPolicy{}: withLabel(objects.LabelCatalog),
	}
}

// Setup adds the controller to a manager, whose cache must be configured with Cached.
func Setup(mgr ctrl.Manager, o Options) error {
	registerMetrics()

	r, err := newReconciler(mgr.GetClient(), mgr.GetCache(), mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}

	if err := mgr.Add(r.poller.lookups.retrievals.Runnable()); err != nil {
		return fmt.Errorf("setting up the polls of catalog images: %w", err)
	}

	owned := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.CatalogSource{})
	b := ctrl.NewControllerManagedBy(mgr)
	if o.Inline != nil {
		b = b.WatchesRawSource(newCatalogEventSource(o.Inline.OnEnd))
	}

	err = b.
		Named("catalogsource").
		For(&v1alpha1.CatalogSource{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Pod{}, owned).
		Watches(&corev1.Service{}, owned).
		Watches(&corev1.ServiceAccount{}, owned).
		Watches(&networkingv1.NetworkPolicy{}, owned).
		WatchesMetadata(&corev1.ConfigMap{}, owned).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.listRequestsInNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(newCatalogEventSource(o.Pool.OnChange)).
		WatchesRawSource(newCatalogEventSource(r.poller.lookups.onEnd)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minRetryInterval, r.schedule.resyncInterval),
		}).
		Complete(r.newObjectReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller of CatalogSources: %w", err)
	}

	return nil
}

// listRequestsInNamespace is a map function that enqueues the catalogs of a namespace.
func (r *reconciler) listRequestsInNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
	var catalogs v1alpha1.CatalogSourceList
	if err := r.client.List(ctx, &catalogs, client.InNamespace(namespace.GetName())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the CatalogSources of a namespace", "namespace", namespace.GetName())
		return nil
	}

	requests := make([]ctrl.Request, 0, len(catalogs.Items))
	for i := range catalogs.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&catalogs.Items[i])})
	}

	return requests
}

// newCatalogEventSource returns a source of catalogs for which a function is called: those whose connections have changed, or
// whose images have been retrieved.
func newCatalogEventSource(onChange func(func(types.NamespacedName))) ctrlsource.Source {
	var once sync.Once
	return ctrlsource.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		once.Do(func() {
			onChange(func(catalog types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: catalog}) })
		})
		return nil
	})
}
