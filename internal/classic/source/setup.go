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

// workers is how many catalogs are looked at at the same time.
const workers = 2

// firstPause is how long a catalog waits after a failure, before it waits longer and longer.
const firstPause = 200 * time.Millisecond

// Catalogs run in any namespace: as a pod behind a Service, with an account, which may read the ConfigMap that
// the catalog is in. Caches hold of these kinds what has the labels of catalogs; a role cannot be bound to labels.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch

// Cached says what the cache of a manager that this controller runs in needs to hold of the kinds
// that it watches: of each only what belongs to catalogs.
func Cached() map[client.Object]cache.ByObject {
	has := func(label string) cache.ByObject {
		requirement, _ := labels.NewRequirement(label, selection.Exists, nil) // The labels are constants.
		return cache.ByObject{Label: labels.NewSelector().Add(*requirement)}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                 has(objects.LabelCatalog),
		&corev1.Service{}:             has(objects.LabelServiceHash),
		&corev1.ServiceAccount{}:      {Label: labels.SelectorFromSet(labels.Set{objects.LabelManaged: "true"})},
		&corev1.ConfigMap{}:           has(objects.LabelManaged),
		&networkingv1.NetworkPolicy{}: has(objects.LabelCatalog),
	}
}

// Setup adds the controller to a manager, whose cache is as Cached says.
func Setup(mgr ctrl.Manager, o Options) error {
	r, err := newReconciler(mgr.GetClient(), mgr.GetCache(), mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}

	owned := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.CatalogSource{})
	err = ctrl.NewControllerManagedBy(mgr).
		Named("catalogsource").
		For(&v1alpha1.CatalogSource{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Pod{}, owned).
		Watches(&corev1.Service{}, owned).
		Watches(&corev1.ServiceAccount{}, owned).
		Watches(&networkingv1.NetworkPolicy{}, owned).
		WatchesMetadata(&corev1.ConfigMap{}, owned).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(connections(o.Pool.Tell)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, r.resync),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of CatalogSources: %w", err)
	}

	return nil
}

// inNamespace returns the catalogs of a namespace whose labels have changed.
func (r *reconciler) inNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
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

// connections is a source of the catalogs whose connections have changed.
func connections(tell func(func(types.NamespacedName))) ctrlsource.Source {
	var once sync.Once
	return ctrlsource.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		once.Do(func() { tell(func(catalog types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: catalog}) }) })
		return nil
	})
}
