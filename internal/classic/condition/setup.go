package condition

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Options are what the controllers are set up with. There is nothing to choose yet.
type Options struct{}

// Setup adds the controllers of OperatorConditions to a manager: that which makes them for
// ClusterServiceVersions, and that which lets operators write them and reads what they say.
//
// The manager's cache is asked for OperatorConditions and for ClusterServiceVersions that are no
// copies. Roles and their bindings are in a cache of their own, which has those alone that are marked
// as made by OLM.
func Setup(mgr ctrl.Manager, _ Options) error {
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})}
	marked, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&rbacv1.Role{}: managed, &rbacv1.RoleBinding{}: managed},
	})
	if err != nil {
		return fmt.Errorf("making the cache of roles of OperatorConditions: %w", err)
	}
	if err := mgr.Add(marked); err != nil {
		return fmt.Errorf("adding the cache of roles of OperatorConditions: %w", err)
	}

	err = ctrl.NewControllerManagedBy(mgr).
		Named("operatorcondition").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&operatorsv2.OperatorCondition{}, &handler.EnqueueRequestForObject{}).
		Complete(&maker{client: mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("setting up the controller that makes OperatorConditions: %w", err)
	}

	b := ctrl.NewControllerManagedBy(mgr).
		Named("operatorcondition-access").
		Watches(&operatorsv2.OperatorCondition{}, &handler.EnqueueRequestForObject{})
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(marked, object, handler.EnqueueRequestsFromMapFunc(conditionOfRole)))
	}

	if err := b.Complete(&reader{client: mgr.GetClient(), marked: marked}); err != nil {
		return fmt.Errorf("setting up the controller that reads OperatorConditions: %w", err)
	}

	return nil
}

// conditionOfRole wakes the OperatorCondition that a Role, or its binding, is for.
func conditionOfRole(_ context.Context, object client.Object) []ctrl.Request {
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == operatorsv2.OperatorConditionKind {
			return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: o.Name}}}
		}
	}
	return nil
}
