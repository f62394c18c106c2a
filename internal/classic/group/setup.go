package group

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Options configure the controllers.
type Options struct {
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
	// Marked is the cache of labelled roles and bindings that NewCache returns. Nil means that Setup creates one.
	Marked cache.Cache
	// CRDs is the cache that crdinfo.NewCache returns. Nil means that Setup creates one.
	CRDs cache.Cache
}

// Setup adds the controllers of OperatorGroups to a manager. They reconcile the groups, the labels of
// namespaces, the ClusterRoles for APIs, and the rights of operators that watch all namespaces.
//
// They read OperatorGroups, ClusterServiceVersions, and the metadata of Namespaces, service accounts and
// APIServices from the manager's cache. It need not have copied CSVs. CRDs are in a separate cache, and so are roles and
// bindings, of which it has only those that are labelled as created for operators.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	var err1, err2 error
	if o.Marked == nil {
		o.Marked, err1 = NewCache(mgr)
	}
	if o.CRDs == nil {
		o.CRDs, err2 = crdinfo.NewCache(mgr)
	}
	if err := errors.Join(err1, err2); err != nil {
		return err
	}

	roles := roleWriter{client: mgr.GetClient(), cache: o.Marked}
	for _, setup := range []func() error{
		func() error { return setupGroups(mgr, o, roles) },
		func() error { return setupNamespaces(mgr) },
		func() error { return setupAPIs(mgr, o, roles) },
		func() error { return setupGrants(mgr, o.Marked) },
	} {
		if err := setup(); err != nil {
			return fmt.Errorf("setting up the controllers of OperatorGroups: %w", err)
		}
	}

	return nil
}

// NewCache returns a cache of the roles and bindings that are labelled as created for operators, and adds it to
// the manager. It has the ClusterRoles with the label olm.managed, and of the other kinds the objects with the
// label of an owner.
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
		return nil, fmt.Errorf("creating the cache of roles: %w", err)
	}
	if err := mgr.Add(marked); err != nil {
		return nil, fmt.Errorf("adding the cache of roles: %w", err)
	}

	return marked, nil
}

// newPartialMetadata returns an object of a kind whose metadata alone is read.
func newPartialMetadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

func newCSV() *v1alpha1.ClusterServiceVersion { return &v1alpha1.ClusterServiceVersion{} }

var (
	namespaceKind      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	apiServiceKind     = apiregistrationGroupVersion.WithKind(kindAPIService)
)

// labelsChanged is a predicate for creations, deletions and changes of labels.
var labelsChanged = predicate.LabelChangedPredicate{}

// specChanged is a predicate for creations, deletions and changes of the generation.
var specChanged = predicate.GenerationChangedPredicate{}

// updatesOnly is a predicate for all updates.
var updatesOnly = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// lacksGroup is a predicate for ClusterServiceVersions without the annotations of a group, which are not checked until they
// have them.
var lacksGroup = predicate.NewPredicateFuncs(func(csv client.Object) bool {
	return csv.GetAnnotations()[csvinfo.AnnotationOperatorGroup] == ""
})

// roleCollectInterval is how long changes are collected that only the ClusterRoles and the list of APIs of a group depend
// on. Several operators add their APIs one after the other, and several ClusterRoles are written one after the other: a pass
// in between would write those again that are not in the cache yet.
const roleCollectInterval = 250 * time.Millisecond

// maxConcurrentReconciles limits how many objects each controller reconciles concurrently, so that none waits for those of
// another namespace.
const maxConcurrentReconciles = 4

func setupGroups(mgr ctrl.Manager, o Options, roles roleWriter) error {
	r := &groups{client: mgr.GetClient(), roles: roles, marked: o.Marked, clock: o.Clock}
	enqueue := handler.EnqueueRequestsFromMapFunc
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup").
		Watches(&operatorsv1.OperatorGroup{}, enqueue(r.enqueueGroupsOfNamespace), builder.WithPredicates(specChanged)).
		Watches(&operatorsv1.OperatorGroup{}, reconcile.Collect(roleCollectInterval, r.enqueueGroupsOfNamespace), builder.WithPredicates(updatesOnly)).
		Watches(&v1alpha1.ClusterServiceVersion{}, enqueue(r.enqueueGroupsOfNamespace), builder.WithPredicates(lacksGroup)).
		Watches(&v1alpha1.ClusterServiceVersion{}, reconcile.Collect(roleCollectInterval, r.enqueueGroupsOfNamespace)).
		WatchesMetadata(newPartialMetadata(namespaceKind), enqueue(r.enqueueGroupsWithSelector), builder.WithPredicates(labelsChanged)).
		WatchesMetadata(newPartialMetadata(serviceAccountKind), enqueue(r.enqueueGroupsOfAccount), builder.WithPredicates(labelsChanged)).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.ClusterRole{}, reconcile.Collect(roleCollectInterval, enqueueGroupOfRole))).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete(r.newReconciler())
}

func setupNamespaces(mgr ctrl.Manager) error {
	r := &namespaceLabels{client: mgr.GetClient()}
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-namespaces").
		WatchesMetadata(newPartialMetadata(namespaceKind), &handler.EnqueueRequestForObject{}, builder.WithPredicates(labelsChanged)).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(enqueueTargetNamespaces)).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete(r.newReconciler())
}

func setupAPIs(mgr ctrl.Manager, o Options, roles roleWriter) error {
	r := &apiRoles{client: mgr.GetClient(), cached: mgr.GetCache(), crds: o.CRDs, roles: roles}
	enqueue := handler.EnqueueRequestsFromMapFunc
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-apis").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}).
		WatchesRawSource(source.Kind[client.Object](o.CRDs, &crdinfo.Definition{}, enqueue(r.enqueueOwnersOfAPI(kindCRD)), specChanged)).
		WatchesMetadata(newPartialMetadata(apiServiceKind), enqueue(r.enqueueOwnersOfAPI(kindAPIService)), builder.WithPredicates(specChanged)).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.ClusterRole{}, reconcile.Collect(roleCollectInterval, r.enqueueOwnersOfRole))).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete(r.newReconciler())
}

func setupGrants(mgr ctrl.Manager, marked cache.Cache) error {
	r := &grants{client: mgr.GetClient(), live: mgr.GetAPIReader(), marked: marked}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("operatorgroup-grants").
		Watches(&v1alpha1.ClusterServiceVersion{}, &handler.EnqueueRequestForObject{}).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.enqueueMembers))
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(marked, object, handler.EnqueueRequestsFromMapFunc(enqueueOwnerByLabels)))
	}
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).Complete(r.newReconciler())
}

// enqueueOwnerByLabels is a map function that returns the ClusterServiceVersion for which an object was created.
func enqueueOwnerByLabels(_ context.Context, object client.Object) []ctrl.Request {
	namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels())
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}
