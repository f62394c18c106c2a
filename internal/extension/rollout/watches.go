package rollout

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

const (
	// refusedWatchRetryInterval is how long a watch that was refused is not retried. Meanwhile the
	// objects are read with every resync.
	refusedWatchRetryInterval = 5 * time.Minute
)

// scope is the set of objects that a watch selects, and the account that it uses. The zero value
// is the objects of all revisions, with the rights of operator-controller.
type scope struct {
	as impersonation.Account
	// ownerKind and ownerName limit the watch to the objects with these owner labels. Empty
	// means any owner.
	ownerKind, ownerName string
	// namespace limits the watch to one namespace. Empty means the whole cluster.
	namespace string
}

// scopeForRevision returns the scope in which the objects of a revision are watched. It uses the
// rights of the revision's account, which needs them for the rollout anyway: operator-controller
// has no right to watch every kind. Revisions that name no account share one scope.
func scopeForRevision(set *olmv1.ClusterObjectSet) scope {
	as := account.ForRevision(set)
	if as.IsOwn() {
		return scope{}
	}
	owner := objectLabels(set)
	return scope{as: as, ownerKind: owner[olmv1.LabelOwnerKind], ownerName: owner[olmv1.LabelOwnerName]}
}

// labelSelector returns the label selector of the scope, which the API server evaluates.
func (s scope) labelSelector() string {
	if s.ownerName == "" {
		return olmv1.LabelOwnerKind
	}
	return labels.Set{olmv1.LabelOwnerKind: s.ownerKind, olmv1.LabelOwnerName: s.ownerName}.String()
}

// watchKey is a resource in a scope.
type watchKey struct {
	scope
	resource schema.GroupVersionResource
}

// watchManager enqueues revisions when their objects change. It watches the metadata of exactly
// the resources that revisions use: a watch is started for the first revision that uses a
// resource, and stopped when the last one releases it.
//
// It is a source of the controller, which starts it and passes the queue.
type watchManager struct {
	clock clock.PassiveClock
	log   logr.Logger

	mu sync.Mutex
	// ctx and queue are set by Start.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	// users are the names of the revisions that use a resource.
	users map[watchKey]map[string]bool
	// running are the running watches.
	running map[watchKey]*runningWatch
	// refusedUntil is when a refused watch may be retried.
	refusedUntil map[watchKey]time.Time
}

// runningWatch is one watch. Its address distinguishes it from an earlier one of the same
// resource.
type runningWatch struct {
	stop     context.CancelFunc
	informer cache.SharedIndexInformer
}

func newWatchManager(clock clock.PassiveClock, log logr.Logger) *watchManager {
	return &watchManager{
		clock: clock, log: log,
		users:        map[watchKey]map[string]bool{},
		running:      map[watchKey]*runningWatch{},
		refusedUntil: map[watchKey]time.Time{},
	}
}

// Start sets the queue. The watches stop when the context is done.
func (w *watchManager) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, queue
	return nil
}

// ensureWatch starts a watch that enqueues revisions when objects of the resource change. It does
// nothing if the watch runs, or was refused recently. The client has the rights of the scope's account.
func (w *watchManager) ensureWatch(set string, key watchKey, client metadata.Interface) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[key] == nil {
		w.users[key] = map[string]bool{}
	}

	w.users[key][set] = true
	if w.running[key] != nil || w.ctx == nil || w.clock.Now().Before(w.refusedUntil[key]) {
		return
	}

	ctx, stop := context.WithCancel(w.ctx)
	watch := &runningWatch{stop: stop, informer: newMetadataInformer(client, key)}
	w.running[key] = watch
	go w.runInformer(ctx, key, watch)
}

// lastSeenObject returns the last version of an object that a watch observed. It returns false if
// there is none.
func (w *watchManager) lastSeenObject(key watchKey, namespace, name string) (apply.ObservedObject, bool) {
	w.mu.Lock()
	watch := w.running[key]
	w.mu.Unlock()
	if watch == nil {
		return apply.ObservedObject{}, false
	}

	found, ok, err := watch.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	object, isObject := found.(metav1.Object)
	if err != nil || !ok || !isObject {
		return apply.ObservedObject{}, false
	}

	seen := apply.ObservedObject{UID: object.GetUID(), Version: object.GetResourceVersion(), Deleting: object.GetDeletionTimestamp() != nil, HasFinalizers: len(object.GetFinalizers()) > 0}
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		seen.Controller = controller.UID
	}

	return seen, true
}

// lastSeenFunc returns a function that returns the last observed version of an object in the
// scope.
func (w *watchManager) lastSeenFunc(within scope) func(schema.GroupVersionResource, string, string) (apply.ObservedObject, bool) {
	return func(resource schema.GroupVersionResource, namespace, name string) (apply.ObservedObject, bool) {
		return w.lastSeenObject(watchKey{within, resource}, namespace, name)
	}
}

// isFullyWatched reports whether every resource that a revision uses is watched.
func (w *watchManager) isFullyWatched(set string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, users := range w.users {
		if users[set] && w.running[key] == nil {
			return false
		}
	}
	return true
}

// release ends the use of every resource by a revision, and stops the watches that no revision
// uses.
func (w *watchManager) release(set string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, users := range w.users {
		delete(users, set)
		if len(users) > 0 {
			continue
		}

		delete(w.users, key)
		delete(w.refusedUntil, key)
		if r := w.running[key]; r != nil {
			r.stop()
			delete(w.running, key)
		}
	}
}

// newMetadataInformer returns the informer of a watch. It is not started yet.
func newMetadataInformer(client metadata.Interface, key watchKey) cache.SharedIndexInformer {
	return metadatainformer.NewFilteredMetadataInformer(client, key.resource, key.namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = key.labelSelector() }).Informer()
}

// runInformer runs the informer of a watch until the context is done.
func (w *watchManager) runInformer(ctx context.Context, key watchKey, watch *runningWatch) {
	// These calls fail only on a running informer.
	_ = watch.informer.SetTransform(stripMetadata)
	_ = watch.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.handleWatchError(key, watch, err)
	})
	_, _ = watch.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.enqueueOwner,
		UpdateFunc: func(before, after any) {
			w.enqueueOwner(before)
			w.enqueueOwner(after)
		},
		DeleteFunc: w.enqueueOwner,
	})

	watch.informer.RunWithContext(ctx)
}

// handleWatchError handles the error of a broken watch. The informer restarts most watches. A
// watch is stopped if its resource is no longer served or may not be watched, since it would
// otherwise retry forever. The next reconciliation of a revision that uses the resource starts it
// again.
func (w *watchManager) handleWatchError(key watchKey, watch *runningWatch, err error) {
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
	if !refused && !apierrors.IsNotFound(err) {
		w.log.V(1).Info("A watch broke and is restarted", "resource", key.resource.String(), "account", key.as.String(), "cause", err.Error())
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[key] != watch {
		return
	}

	watch.stop()
	delete(w.running, key)
	if refused {
		for set := range w.users[key] { // their resync interval is shorter from now on
			w.queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: set}})
		}
		w.refusedUntil[key] = w.clock.Now().Add(refusedWatchRetryInterval)
		w.log.Info("Changes of managed objects of this resource are noticed late, as it cannot be watched", "resource", key.resource.String(), "account", key.as.String(), "cause", err.Error())
	}
}

// enqueueOwner enqueues the revision that controls an object.
func (w *watchManager) enqueueOwner(changed any) {
	if gone, ok := changed.(cache.DeletedFinalStateUnknown); ok {
		changed = gone.Obj
	}

	object, ok := changed.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && isClusterObjectSet(owner) {
		w.queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: owner.Name}})
	}
}

func isClusterObjectSet(owner *metav1.OwnerReference) bool {
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return group == schema.GroupKind{Group: olmv1.GroupVersion.Group, Kind: olmv1.ClusterObjectSetKind}
}

// stripMetadata removes the metadata that the watch does not need, before the object is stored in
// memory.
func stripMetadata(changed any) (any, error) {
	if object, ok := changed.(*metav1.PartialObjectMetadata); ok {
		object.ManagedFields = nil
		object.Annotations = nil
		object.Labels = nil
	}
	return changed, nil
}
