package copied

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// sourceIndex is the cache index of copies by their source, as NAMESPACE/NAME.
	sourceIndex = "source"
	// maxConcurrentReconciles limits how many ClusterServiceVersions are reconciled concurrently.
	maxConcurrentReconciles = 4
	// collectInterval is how long changes of a ClusterServiceVersion and of its roles are collected before its copies are
	// written. An installation goes through four phases in a quarter of a second, and each would be copied to all namespaces.
	collectInterval = time.Second / 2
	// olmConfigDelay is how long changes are collected before the OLMConfig is reconciled.
	olmConfigDelay = time.Second
)

// Options configure the controllers.
type Options struct {
	// ProtectedNamespaces have copies of all operators even if an OLMConfig disables them.
	ProtectedNamespaces []string
	// Marked is the cache of labelled roles and bindings that group.NewCache returns. Required.
	Marked cache.Cache
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
}

// Setup adds the controllers of copied CSVs to a manager: one creates and deletes them, the other reports their state
// in the OLMConfig.
//
// They read original ClusterServiceVersions, OperatorGroups, OLMConfigs and the metadata of Namespaces from the
// manager's cache. Copies are in a separate cache, which keeps their names, resource versions and sources.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Marked == nil {
		return errors.New("setting up the controllers of copied CSVs: the cache of roles is required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	copies, err := newCopyCache(mgr)
	if err != nil {
		return err
	}

	creator, err := newCopyCreator(mgr)
	if err != nil {
		return err
	}

	r := &copier{
		client: mgr.GetClient(), creator: creator, reader: mgr.GetAPIReader(), copies: copies, marked: o.Marked, memory: newMemory(),
		events:    &disabledEvents{client: mgr.GetClient(), clock: o.Clock, states: map[types.NamespacedName]eventState{}},
		protected: sets.New(o.ProtectedNamespaces...), clock: o.Clock,
	}
	enqueue := handler.EnqueueRequestsFromMapFunc
	err = ctrl.NewControllerManagedBy(mgr).
		Named("copiedcsv").
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Watches(&v1alpha1.ClusterServiceVersion{}, r.newSourceHandler()).
		Watches(&operatorsv1.OperatorGroup{}, enqueue(r.enqueueMembers)).
		Watches(&operatorsv1.OLMConfig{}, enqueue(r.enqueueAllSources), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(newNamespaceMetadata(), enqueue(r.enqueueAllSources), builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		}})).
		WatchesRawSource(source.Kind[client.Object](copies, newCSVMetadata("", ""), r.newCopyHandler())).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.Role{}, reconcile.Collect(collectInterval, enqueueSourceOfRole))).
		WatchesRawSource(source.Kind[client.Object](o.Marked, &rbacv1.RoleBinding{}, reconcile.Collect(collectInterval, enqueueSourceOfRole))).
		Complete(r.newReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller of copies: %w", err)
	}

	delayed := newDelayedHandler()
	err = ctrl.NewControllerManagedBy(mgr).
		Named("olmconfig").
		Watches(&operatorsv1.OLMConfig{}, delayed, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ClusterServiceVersion{}, delayed).
		WatchesMetadata(newNamespaceMetadata(), delayed).
		WatchesRawSource(source.Kind[client.Object](copies, newCSVMetadata("", ""), delayed)).
		Complete((&configReporter{client: r.client, copies: copies, protected: r.protected}).newReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller of OLMConfigs: %w", err)
	}

	return nil
}

// newCopyCache returns a cache of the metadata of copies with an index by source, and adds it to the manager.
func newCopyCache(mgr ctrl.Manager) (cache.Cache, error) {
	isCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting copies: %w", err)
	}

	copies, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*isCopy), DefaultTransform: (&metadataTrimmer{}).trimMetadata,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of copies: %w", err)
	}
	if err := mgr.Add(copies); err != nil {
		return nil, fmt.Errorf("adding the cache of copies: %w", err)
	}

	err = copies.IndexField(context.Background(), newCSVMetadata("", ""), sourceIndex, func(o client.Object) []string { return []string{sourceOfCopy(o).String()} })
	if err != nil {
		return nil, fmt.Errorf("indexing copies by their sources: %w", err)
	}

	return copies, nil
}

// metadataTrimmer removes the metadata of a copy except its identity and its source. There are few sources, so the names and
// maps that identify them are shared between copies.
type metadataTrimmer struct {
	names, labels, annotations sync.Map
}

// copyTypeMeta is the type of the metadata of copies.
var copyTypeMeta = newCSVMetadata("", "").TypeMeta

func (s *metadataTrimmer) trimMetadata(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // It is the tombstone of a deleted object.
	}

	m.TypeMeta = copyTypeMeta
	m.SetName(sharedString(&s.names, m.GetName()))
	m.SetManagedFields(nil)
	m.SetOwnerReferences(nil)
	m.SetLabels(sharedMap(&s.labels, m.GetLabels(), csvinfo.LabelCopiedFrom))
	m.SetAnnotations(sharedMap(&s.annotations, m.GetAnnotations(), csvinfo.AnnotationOperatorNamespace))

	return object, nil
}

// sharedString returns a string that is equal to another one. Equal strings are shared.
func sharedString(held *sync.Map, text string) string {
	one, _ := held.LoadOrStore(text, text)
	shared, _ := one.(string)
	return shared
}

// sharedMap returns a map with one key of the given map. Maps with the same value are shared.
func sharedMap(held *sync.Map, from map[string]string, key string) map[string]string {
	value := from[key]
	one, _ := held.LoadOrStore(value, map[string]string{key: value})
	shared, _ := one.(map[string]string)
	return shared
}

// newCSVMetadata returns the metadata-only object of a ClusterServiceVersion.
func newCSVMetadata(namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind))
	return object
}

func newCSVMetadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind + "List"))
	return list
}

func newNamespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// sourceOfCopy returns the ClusterServiceVersion that was copied.
func sourceOfCopy(copied client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: copied.GetLabels()[csvinfo.LabelCopiedFrom], Name: copied.GetName()}
}

// enqueueSourceOfRole is a map function that returns the ClusterServiceVersion for which a Role or RoleBinding was created
// or copied.
func enqueueSourceOfRole(_ context.Context, role client.Object) []ctrl.Request {
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

// newCopyHandler returns a handler that enqueues the source of a changed copy, unless the change is the last write. A
// deleted copy also enqueues all ClusterServiceVersions of its name, since it no longer blocks their copies.
func (r *copier) newCopyHandler() handler.EventHandler {
	changed := func(object client.Object, q queue) {
		now := r.clock.Now()
		if _, ok := r.memory.lookUp(client.ObjectKeyFromObject(object), object.GetUID(), object.GetResourceVersion(), now); !ok {
			q.Add(ctrl.Request{NamespacedName: sourceOfCopy(object)})
		}
	}

	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if sourceOfCopy(e.ObjectOld) != sourceOfCopy(e.ObjectNew) {
				q.Add(ctrl.Request{NamespacedName: sourceOfCopy(e.ObjectOld)})
			}
			changed(e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.memory.forget(client.ObjectKeyFromObject(e.Object), e.Object.GetUID())
			q.Add(ctrl.Request{NamespacedName: sourceOfCopy(e.Object)})
			for _, request := range r.listRequestsByName(ctx, e.Object.GetName()) {
				q.Add(request)
			}
		},
	}
}

// newSourceHandler returns a handler that enqueues a changed ClusterServiceVersion. A created or deleted one also enqueues
// those of the same name, because it blocks or unblocks their copies. Only a deletion is handled at once.
func (r *copier) newSourceHandler() handler.EventHandler {
	mapToBoth := func(ctx context.Context, csv client.Object) []ctrl.Request {
		return append(r.listRequestsByName(ctx, csv.GetName()), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
	}
	return handler.Funcs{
		CreateFunc: reconcile.Collect(collectInterval, mapToBoth).Create,
		UpdateFunc: reconcile.Collect(collectInterval, reconcile.EnqueueObject).Update,
		DeleteFunc: handler.EnqueueRequestsFromMapFunc(mapToBoth).Delete,
	}
}

// enqueueMembers is a map function that returns the ClusterServiceVersions in the namespace of a group.
func (r *copier) enqueueMembers(ctx context.Context, group client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(*v1alpha1.ClusterServiceVersion) bool { return true }, client.InNamespace(group.GetNamespace()))
}

// enqueueAllSources is a map function that returns all ClusterServiceVersions that watch other namespaces.
func (r *copier) enqueueAllSources(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		targets, _ := membership.TargetsOf(csv)
		return len(targets) > 0 && !slices.Equal(targets, []string{csv.Namespace})
	})
}

// listRequestsByName returns requests for the ClusterServiceVersions of a name in all namespaces.
func (r *copier) listRequestsByName(ctx context.Context, name string) []ctrl.Request {
	return r.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Name == name })
}

func (r *copier) listRequests(ctx context.Context, matters func(*v1alpha1.ClusterServiceVersion) bool, in ...client.ListOption) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, append(in, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if csv := &list.Items[i]; matters(csv) && !csvinfo.HasCopiedMetadata(csv) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}

	return requests
}

// newDelayedHandler returns a handler that enqueues the OLMConfig after a delay, because many copies change at once.
func newDelayedHandler() handler.EventHandler {
	enqueue := func(q queue) {
		q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Name: operatorsv1.OLMConfigName}}, olmConfigDelay)
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { enqueue(q) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { enqueue(q) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { enqueue(q) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { enqueue(q) },
	}
}
