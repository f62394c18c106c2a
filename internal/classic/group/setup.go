package group

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Options are what the controllers are set up with.
type Options struct {
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
	// Marked is the cache of roles and bindings, which NewCache makes. Nil means one of its own.
	Marked cache.Cache
}

// Setup adds the controllers of OperatorGroups to a manager: that of the groups, that of the labels of
// namespaces, that of the access to APIs, and that of the rights of operators that watch all
// namespaces. It is the one list of them.
//
// The manager's cache is asked for OperatorGroups, for ClusterServiceVersions that are no copies, and
// for the metadata of Namespaces, ServiceAccounts, CRDs and APIServices. Roles and bindings are in a
// cache of their own, which has those alone that are marked as made for operators.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	marked := o.Marked
	if marked == nil {
		var err error
		if marked, err = NewCache(mgr); err != nil {
			return err
		}
	}

	roles := roles{client: mgr.GetClient(), cache: marked}
	for _, setup := range []func() error{
		func() error { return setupGroups(mgr, o, marked, roles) },
		func() error { return setupNamespaces(mgr) },
		func() error { return setupAPIs(mgr, marked, roles) },
		func() error { return setupGrants(mgr, marked) },
	} {
		if err := setup(); err != nil {
			return fmt.Errorf("setting up the controllers of OperatorGroups: %w", err)
		}
	}

	return nil
}

// NewCache makes a cache of the roles and bindings that are marked as made for operators, and adds it to
// the manager. Of ClusterRoles it has those that are marked as made by OLM, of the others those that
// have an owner.
func NewCache(mgr ctrl.Manager) (cache.Cache, error) {
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})}
	isOwned, err := labels.NewRequirement(csvinfo.LabelOwner, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting what has an owner: %w", err)
	}

	owned := cache.ByObject{Label: labels.NewSelector().Add(*isOwned)}
	marked, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&rbacv1.ClusterRole{}: managed, &rbacv1.ClusterRoleBinding{}: owned, &rbacv1.Role{}: owned, &rbacv1.RoleBinding{}: owned,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of roles: %w", err)
	}
	if err := mgr.Add(marked); err != nil {
		return nil, fmt.Errorf("adding the cache of roles: %w", err)
	}

	return marked, nil
}

// metadataOf is an object of which only the metadata is read.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

var (
	namespaceKind      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	crdKind            = apiextensionsGroupVersion.WithKind(kindCRD)
	apiServiceKind     = apiregistrationGroupVersion.WithKind(kindAPIService)
)

// labelsMatter lets through what comes, goes, or changes its labels.
var labelsMatter = predicate.LabelChangedPredicate{}

// comeAndGo lets through what comes or goes.
var comeAndGo = predicate.GenerationChangedPredicate{}

func setupGroups(mgr ctrl.Manager, o Options, marked cache.Cache, roles roles) error {
	r := &groups{client: mgr.GetClient(), roles: roles, marked: marked, clock: o.Clock}
	wake := handler.EnqueueRequestsFromMapFunc
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup").
		Watches(&operatorsv1.OperatorGroup{}, wake(r.groupsOfNamespace)).
		Watches(&v1alpha1.ClusterServiceVersion{}, wake(r.groupsOfNamespace)).
		WatchesMetadata(metadataOf(namespaceKind), wake(r.groupsThatSelect), builder.WithPredicates(labelsMatter)).
		WatchesMetadata(metadataOf(serviceAccountKind), wake(r.groupsOfAccount), builder.WithPredicates(labelsMatter)).
		WatchesRawSource(source.Kind[client.Object](marked, &rbacv1.ClusterRole{}, wake(groupOfRole))).
		Complete(r)
}

func setupNamespaces(mgr ctrl.Manager) error {
	r := &namespaces{client: mgr.GetClient()}
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-namespaces").
		WatchesMetadata(metadataOf(namespaceKind), &handler.EnqueueRequestForObject{}, builder.WithPredicates(labelsMatter)).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(targetsOfGroup)).
		Complete(r)
}

func setupAPIs(mgr ctrl.Manager, marked cache.Cache, roles roles) error {
	r := &apis{client: mgr.GetClient(), roles: roles}
	wake := handler.EnqueueRequestsFromMapFunc
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-apis").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}).
		WatchesMetadata(metadataOf(crdKind), wake(r.ownersOfAPI), builder.WithPredicates(comeAndGo)).
		WatchesMetadata(metadataOf(apiServiceKind), wake(r.ownersOfAPI), builder.WithPredicates(comeAndGo)).
		WatchesRawSource(source.Kind[client.Object](marked, &rbacv1.ClusterRole{}, wake(r.ownersOfRole))).
		Complete(r)
}

func setupGrants(mgr ctrl.Manager, marked cache.Cache) error {
	r := &grants{client: mgr.GetClient(), live: mgr.GetAPIReader(), marked: marked}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-grants").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.members))
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(marked, object, handler.EnqueueRequestsFromMapFunc(ownerByLabels)))
	}
	return b.Complete(r)
}

// ownerByLabels wakes the ClusterServiceVersion that something was made for.
func ownerByLabels(_ context.Context, object client.Object) []ctrl.Request {
	namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels())
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}
