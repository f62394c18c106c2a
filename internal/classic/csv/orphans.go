package csv

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/owned"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list;watch;delete
// +kubebuilder:rbac:groups=console.openshift.io,resources=consoleyamlsamples;consolequickstarts;consoleclidownloads;consolelinks;consoleplugins,verbs=list;watch;delete

// consoleVersion is the version of the kinds of the OpenShift console.
var consoleVersion = schema.GroupVersion{Group: "console.openshift.io", Version: "v1"}

// outsideKind is a kind of which objects are created outside of the namespace of their ClusterServiceVersion.
type outsideKind struct {
	schema.GroupVersionKind
	// namespace is the namespace of the objects; empty for a cluster-scoped kind.
	namespace string
}

// outsideKinds are all such kinds, in the order in which their objects are deleted: bindings first, so that rights end
// at once. Clusters may not serve the kinds of the console.
var outsideKinds = []outsideKind{
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole")},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), namespace: metav1.NamespaceSystem},
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")},
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")},
	{GroupVersionKind: apiregistrationv1.SchemeGroupVersion.WithKind("APIService")},
	{GroupVersionKind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")},
	{GroupVersionKind: consoleVersion.WithKind("ConsoleYAMLSample")},
	{GroupVersionKind: consoleVersion.WithKind("ConsoleQuickStart")},
	{GroupVersionKind: consoleVersion.WithKind("ConsoleCLIDownload")},
	{GroupVersionKind: consoleVersion.WithKind("ConsoleLink")},
	{GroupVersionKind: consoleVersion.WithKind("ConsolePlugin")},
}

// orphanCollector deletes the objects outside of a namespace whose owner labels name a ClusterServiceVersion that does
// not exist. The garbage collector cannot delete them, because they have no owner reference. Rights that stay behind
// would belong to anyone who recreates the namespace and the service account.
//
// The finalizer of a ClusterServiceVersion deletes most of these objects before the ClusterServiceVersion itself. The others
// are left over if the finalizer was removed by hand, or if they were created while their owner was deleted.
type orphanCollector struct {
	// client reads ClusterServiceVersions from the cache, and deletes.
	client client.Client
	// live reads from the API server without the cache.
	live client.Reader
	// cached reads the metadata of the watched objects.
	cached client.Reader
	// kinds are the outsideKinds that the cluster serves.
	kinds []outsideKind
}

// setupOrphanController adds the controller that collects orphans. When the program starts, all objects are reported
// as created, so each owner is looked up once.
func setupOrphanController(mgr ctrl.Manager) error {
	c := &orphanCollector{client: mgr.GetClient(), live: mgr.GetAPIReader(), cached: mgr.GetCache()}
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion-orphans").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(isDeletion))
	for _, kind := range outsideKinds {
		served, err := servesKind(mgr, kind.GroupVersionKind)
		if err != nil {
			return err
		}
		if !served {
			continue
		}

		c.kinds = append(c.kinds, kind)
		b = b.WatchesMetadata(newPartialMetadata(kind.GroupVersionKind), handler.EnqueueRequestsFromMapFunc(enqueueOutsideOwner), builder.WithPredicates(mayBeOrphaned))
	}

	return b.Complete(reconcile.Func(c.deleteOrphans))
}

// isDeletion is a predicate for deletions.
var isDeletion = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// mayBeOrphaned is a predicate for created objects and for changes of labels.
var mayBeOrphaned = predicate.And(predicate.LabelChangedPredicate{}, predicate.Funcs{
	DeleteFunc: func(event.DeleteEvent) bool { return false },
})

// enqueueOutsideOwner is a map function that returns the ClusterServiceVersion of another namespace for which an object
// was created. Objects in the namespace of their owner have an owner reference.
func enqueueOutsideOwner(_ context.Context, object client.Object) []ctrl.Request {
	namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels())
	if !ok || namespace == object.GetNamespace() {
		return nil
	}
	return []ctrl.Request{newRequest(namespace, name)}
}

// deleteOrphans deletes what was created for a ClusterServiceVersion outside of its namespace, if it does not exist.
func (c *orphanCollector) deleteOrphans(ctx context.Context, owner types.NamespacedName) (time.Duration, error) {
	if exists, err := c.ownerExists(ctx, owner); err != nil || exists {
		return 0, err
	}

	for _, kind := range c.kinds {
		if kind.namespace == owner.Namespace {
			continue
		}
		if _, err := owned.Delete(ctx, c.cached, c.client, kind.GroupVersionKind, owner, client.InNamespace(kind.namespace)); err != nil {
			return 0, err
		}
	}

	return 0, nil
}

// ownerExists reports whether a ClusterServiceVersion exists. It asks the API server about one that is not in the
// cache, which lacks the newest ones and copied CSVs.
func (c *orphanCollector) ownerExists(ctx context.Context, owner types.NamespacedName) (bool, error) {
	err := c.client.Get(ctx, owner, &v1alpha1.ClusterServiceVersion{})
	if apierrors.IsNotFound(err) {
		err = c.live.Get(ctx, owner, newPartialMetadata(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind)))
	}
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("reading ClusterServiceVersion %s: %w", owner, err)
	}
}
