package condition

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// roleCollectInterval is how long changes of Roles and RoleBindings are collected. A pass between the writes of the two
// would repeat the second.
const roleCollectInterval = 250 * time.Millisecond

// maxConcurrentReconciles limits how many objects each controller reconciles concurrently.
const maxConcurrentReconciles = 4

// Options configure the controllers. There are none yet.
type Options struct{}

// Setup adds the controllers of OperatorConditions to a manager. One ensures an OperatorCondition for each
// ClusterServiceVersion. The other grants operators access and updates the status.
//
// They read OperatorConditions and original ClusterServiceVersions from the manager's cache. Roles and RoleBindings
// are in a separate cache, which has only those with the label olm.managed.
func Setup(mgr ctrl.Manager, _ Options) error {
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})}
	marked, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&rbacv1.Role{}: managed, &rbacv1.RoleBinding{}: managed},
	})
	if err != nil {
		return fmt.Errorf("creating the cache of roles of OperatorConditions: %w", err)
	}
	if err := mgr.Add(marked); err != nil {
		return fmt.Errorf("adding the cache of roles of OperatorConditions: %w", err)
	}

	err = ctrl.NewControllerManagedBy(mgr).
		Named("operatorcondition").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&operatorsv2.OperatorCondition{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete((&creator{client: mgr.GetClient()}).newReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller that makes OperatorConditions: %w", err)
	}

	b := ctrl.NewControllerManagedBy(mgr).
		Named("operatorcondition-access").
		Watches(&operatorsv2.OperatorCondition{}, &handler.EnqueueRequestForObject{})
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(marked, object, reconcile.Collect(roleCollectInterval, enqueueConditionOfRole)))
	}

	if err := b.WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).Complete((&accessGranter{client: mgr.GetClient(), marked: marked}).newReconciler()); err != nil {
		return fmt.Errorf("setting up the controller that reads OperatorConditions: %w", err)
	}

	return nil
}

// enqueueConditionOfRole is a map function that returns the OperatorCondition that owns a Role or RoleBinding.
func enqueueConditionOfRole(_ context.Context, object client.Object) []ctrl.Request {
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == operatorsv2.OperatorConditionKind {
			return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: o.Name}}}
		}
	}
	return nil
}
