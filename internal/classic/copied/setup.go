package copied

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

const (
	// sourceIndex finds copies by what they are copies of, as NAMESPACE/NAME.
	sourceIndex = "source"
	// workers is how many ClusterServiceVersions are copied at once.
	workers = 4
	// coalesce is how long changes are collected before the OLMConfig reports on them.
	coalesce = time.Second
)

// Options are what the controllers are set up with.
type Options struct {
	// ProtectedNamespaces have copies of all operators even if an OLMConfig disables them.
	ProtectedNamespaces []string
	// Marked is the cache of roles and bindings, which group.NewCache makes. Nil means one of its own.
	Marked cache.Cache
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// Setup adds the controllers of copies to a manager: that which makes and deletes them, and that which
// reports of them in the OLMConfig.
//
// The manager's cache is asked for ClusterServiceVersions that are no copies, for OperatorGroups, for
// OLMConfigs, and for the metadata of Namespaces. Copies are in a cache of their own, of which the
// names, the versions and the sources are kept.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	if o.Marked == nil {
		var err error
		if o.Marked, err = group.NewCache(mgr); err != nil {
			return err
		}
	}

	copies, err := cacheOfCopies(mgr)
	if err != nil {
		return err
	}

	r := &copier{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), copies: copies, marked: o.Marked, memory: newMemory(),
		notices:   &notices{client: mgr.GetClient(), clock: o.Clock, told: map[types.NamespacedName]notice{}},
		protected: sets.New(o.ProtectedNamespaces...), clock: o.Clock,
	}
	wake := handler.EnqueueRequestsFromMapFunc
	err = ctrl.NewControllerManagedBy(mgr).
		Named("copiedcsv").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&v1alpha1.ClusterServiceVersion{}, r.sourceChanges()).
		Watches(&operatorsv1.OperatorGroup{}, wake(r.members)).
		Watches(&operatorsv1.OLMConfig{}, wake(r.all), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(namespace(), wake(r.all), builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		}})).
		WatchesRawSource(source.Kind[client.Object](copies, metadataOf("", ""), r.copyChanges())).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.Role{}, wake(sourceOfRole))).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.RoleBinding{}, wake(sourceOfRole))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of copies: %w", err)
	}

	soon := wakeSoon()
	err = ctrl.NewControllerManagedBy(mgr).
		Named("olmconfig").
		Watches(&operatorsv1.OLMConfig{}, soon, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ClusterServiceVersion{}, soon).
		WatchesMetadata(namespace(), soon).
		WatchesRawSource(source.Kind[client.Object](copies, metadataOf("", ""), soon)).
		Complete(&configs{copier: r})
	if err != nil {
		return fmt.Errorf("setting up the controller of OLMConfigs: %w", err)
	}

	return nil
}

// cacheOfCopies makes a cache of the metadata of copies, with an index by their sources.
func cacheOfCopies(mgr ctrl.Manager) (cache.Cache, error) {
	isCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting copies: %w", err)
	}

	copies, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*isCopy), DefaultTransform: (&shrinker{}).shrink,
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of copies: %w", err)
	}
	if err := mgr.Add(copies); err != nil {
		return nil, fmt.Errorf("adding the cache of copies: %w", err)
	}

	err = copies.IndexField(context.Background(), metadataOf("", ""), sourceIndex, func(o client.Object) []string { return []string{sourceOf(o).String()} })
	if err != nil {
		return nil, fmt.Errorf("indexing copies by their sources: %w", err)
	}

	return copies, nil
}

// shrinker leaves of a copy what is needed to know which one it is, and of what. There are few sources:
// what copies say of them is held once.
type shrinker struct {
	labels, annotations sync.Map
}

func (s *shrinker) shrink(object any) (any, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // It is no object, but a mark that one is gone.
	}

	m.SetManagedFields(nil)
	m.SetOwnerReferences(nil)
	m.SetLabels(only(&s.labels, m.GetLabels(), csvinfo.LabelCopiedFrom))
	m.SetAnnotations(only(&s.annotations, m.GetAnnotations(), csvinfo.AnnotationOperatorNamespace))

	return object, nil
}

// only returns a map of one key. All that have the same value are one.
func only(held *sync.Map, from map[string]string, key string) map[string]string {
	value := from[key]
	one, _ := held.LoadOrStore(value, map[string]string{key: value})
	shared, _ := one.(map[string]string)
	return shared
}

// metadataOf is a ClusterServiceVersion of which only the metadata is meant.
func metadataOf(namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind))
	return object
}

func metadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind + "List"))
	return list
}

func namespace() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// sourceOf returns what a copy is a copy of.
func sourceOf(copied client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: copied.GetLabels()[csvinfo.LabelCopiedFrom], Name: copied.GetName()}
}

// sourceOfRole wakes the ClusterServiceVersion whose rights a Role, or its binding, gives or copies.
func sourceOfRole(_ context.Context, role client.Object) []ctrl.Request {
	namespace, name, ok := csvinfo.OwnedByLabels(role.GetLabels())
	if !ok {
		return nil
	}
	if from := role.GetLabels()[csvinfo.LabelCopiedFrom]; from != "" {
		namespace = from
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// copyChanges wakes the source of a copy, unless the copy is as it was last written. One that is gone
// makes room for those of other sources.
func (r *copier) copyChanges() handler.EventHandler {
	changed := func(object client.Object, q queue) {
		now := r.clock.Now()
		if _, ok := r.memory.of(client.ObjectKeyFromObject(object), object.GetUID(), object.GetResourceVersion(), now); !ok {
			q.Add(ctrl.Request{NamespacedName: sourceOf(object)})
		}
	}

	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if sourceOf(e.ObjectOld) != sourceOf(e.ObjectNew) {
				q.Add(ctrl.Request{NamespacedName: sourceOf(e.ObjectOld)})
			}
			changed(e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.memory.forget(client.ObjectKeyFromObject(e.Object), e.Object.GetUID())
			q.Add(ctrl.Request{NamespacedName: sourceOf(e.Object)})
			for _, request := range r.named(ctx, e.Object.GetName()) {
				q.Add(request)
			}
		},
	}
}

// sourceChanges wakes a ClusterServiceVersion that changes, and those of the same name whose copies it
// makes way for, or stands in the way of.
func (r *copier) sourceChanges() handler.EventHandler {
	both := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, csv client.Object) []ctrl.Request {
		return append(r.named(ctx, csv.GetName()), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
	})
	return handler.Funcs{
		CreateFunc: both.Create,
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
		},
		DeleteFunc: both.Delete,
	}
}

// members wakes the ClusterServiceVersions of the namespace of a group.
func (r *copier) members(ctx context.Context, group client.Object) []ctrl.Request {
	return r.requests(ctx, func(*v1alpha1.ClusterServiceVersion) bool { return true }, client.InNamespace(group.GetNamespace()))
}

// all wakes all ClusterServiceVersions.
func (r *copier) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.requests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		targets, _ := group.TargetsOf(csv)
		return len(targets) > 0 && !slices.Equal(targets, []string{csv.Namespace})
	})
}

// named wakes the ClusterServiceVersions of a name, in all namespaces.
func (r *copier) named(ctx context.Context, name string) []ctrl.Request {
	return r.requests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Name == name })
}

func (r *copier) requests(ctx context.Context, matters func(*v1alpha1.ClusterServiceVersion) bool, in ...client.ListOption) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, append(in, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to be woken")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if csv := &list.Items[i]; matters(csv) && !csvinfo.HasCopyMarks(csv) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}

	return requests
}

// wakeSoon wakes the OLMConfig a little later: many copies change at once.
func wakeSoon() handler.EventHandler {
	soon := func(q queue) {
		q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Name: operatorsv1.OLMConfigName}}, coalesce)
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { soon(q) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { soon(q) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { soon(q) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { soon(q) },
	}
}
