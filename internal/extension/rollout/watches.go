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
)

const (
	// refusedPause is how long a kind that may not be watched is not asked for again;
	// meanwhile its objects are looked at with every periodic pass.
	refusedPause = 5 * time.Minute
)

// scope is which objects a watch shows, and with whose rights it is made. The zero value
// is the objects of all revisions, with the rights of operator-controller.
type scope struct {
	as account.Account
	// ownerKind and ownerName limit the watch to the objects with these owner labels. Empty
	// means any owner.
	ownerKind, ownerName string
	// namespace limits the watch. Empty means the whole cluster.
	namespace string
}

// scopeOf returns the scope in which the objects of a revision are watched: with the
// rights of its account, which needs them to be rolled out at all. operator-controller has
// no right to watch every kind; its own watches are shared by the revisions that name no
// account.
func scopeOf(set *olmv1.ClusterObjectSet) scope {
	as := account.Of(set)
	if as.IsOwn() {
		return scope{}
	}
	owner := objectLabels(set)
	return scope{as: as, ownerKind: owner[olmv1.LabelOwnerKind], ownerName: owner[olmv1.LabelOwnerName]}
}

// selector selects the objects of the scope, on the server's side.
func (s scope) selector() string {
	if s.ownerName == "" {
		return olmv1.LabelOwnerKind
	}
	return labels.Set{olmv1.LabelOwnerKind: s.ownerKind, olmv1.LabelOwnerName: s.ownerName}.String()
}

// watched is a resource in a scope.
type watched struct {
	scope
	resource schema.GroupVersionResource
}

// watches wakes the controller when a managed object changes. It watches the metadata
// of exactly the resources that revisions use: a watch begins when the first revision
// uses a resource, and ends when the last has released it.
//
// It is a source of the controller, which starts it and gives it the queue.
type watches struct {
	// client returns the client that watches with the rights of an account.
	client func(account.Account) (metadata.Interface, error)
	clock  clock.PassiveClock
	log    logr.Logger

	mu sync.Mutex
	// ctx and queue are set by Start.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	// users are the revisions that use a resource.
	users map[watched]map[string]bool
	// running are the watches: what stops each.
	running map[watched]*running
	// refused says when a resource that may not be watched is asked for again.
	refused map[watched]time.Time
}

// running is one watch. Its address tells it from an earlier one of the same resource.
type running struct {
	stop     context.CancelFunc
	informer cache.SharedIndexInformer
}

func newWatches(client func(account.Account) (metadata.Interface, error), clock clock.PassiveClock, log logr.Logger) *watches {
	return &watches{
		client: client, clock: clock, log: log,
		users:   map[watched]map[string]bool{},
		running: map[watched]*running{},
		refused: map[watched]time.Time{},
	}
}

// Start takes the queue. The watches live as long as the context.
func (w *watches) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, queue
	return nil
}

// use sees to it that changes of the resource's objects wake their revisions.
func (w *watches) use(set string, what watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[what] == nil {
		w.users[what] = map[string]bool{}
	}

	w.users[what][set] = true
	if w.running[what] != nil || w.ctx == nil || w.clock.Now().Before(w.refused[what]) {
		return
	}

	client, err := w.client(what.as)
	if err != nil {
		w.log.Error(err, "Making the client of a watch", "resource", what.resource.String())
		return // covers reports it, and the next pass tries again
	}

	ctx, stop := context.WithCancel(w.ctx)
	this := &running{stop: stop, informer: newInformer(client, what)}
	w.running[what] = this
	go w.run(ctx, what, this)
}

// current returns the version of an object that a watch saw last.
func (w *watches) current(what watched, namespace, name string) (apply.Seen, bool) {
	w.mu.Lock()
	this := w.running[what]
	w.mu.Unlock()
	if this == nil {
		return apply.Seen{}, false
	}

	found, ok, err := this.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	object, isObject := found.(metav1.Object)
	if err != nil || !ok || !isObject {
		return apply.Seen{}, false
	}

	seen := apply.Seen{UID: object.GetUID(), Version: object.GetResourceVersion(), Deleting: object.GetDeletionTimestamp() != nil, Held: len(object.GetFinalizers()) > 0}
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		seen.Controller = controller.UID
	}

	return seen, true
}

// seenIn returns the function that gives the version of an object that a watch of the scope
// saw last.
func (w *watches) seenIn(within scope) func(schema.GroupVersionResource, string, string) (apply.Seen, bool) {
	return func(resource schema.GroupVersionResource, namespace, name string) (apply.Seen, bool) {
		return w.current(watched{within, resource}, namespace, name)
	}
}

// covers reports whether every resource that a revision uses is watched.
func (w *watches) covers(set string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, users := range w.users {
		if users[set] && w.running[what] == nil {
			return false
		}
	}
	return true
}

// release ends the use of every resource by a revision.
func (w *watches) release(set string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, users := range w.users {
		delete(users, set)
		if len(users) > 0 {
			continue
		}

		delete(w.users, what)
		delete(w.refused, what)
		if r := w.running[what]; r != nil {
			r.stop()
			delete(w.running, what)
		}
	}
}

// newInformer returns the watch of a resource, not started yet.
func newInformer(client metadata.Interface, what watched) cache.SharedIndexInformer {
	return metadatainformer.NewFilteredMetadataInformer(client, what.resource, what.namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = what.selector() }).Informer()
}

// run watches a resource until the context ends.
func (w *watches) run(ctx context.Context, what watched, this *running) {
	// Each of the three fails only on an informer that runs already.
	_ = this.informer.SetTransform(onlyOwners)
	_ = this.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.failed(what, this, err)
	})
	_, _ = this.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.wake,
		UpdateFunc: func(before, after any) {
			w.wake(before)
			w.wake(after)
		},
		DeleteFunc: w.wake,
	})

	this.informer.RunWithContext(ctx)
}

// failed hears of every watch that breaks. Most are begun again by the informer; one
// of a resource that is no longer served, or may not be watched, is ended, so that
// it does not ask for ever. The next pass over a revision that uses it begins it
// anew.
func (w *watches) failed(what watched, this *running, err error) {
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
	if !refused && !apierrors.IsNotFound(err) {
		w.log.V(1).Info("A watch broke and is begun again", "resource", what.resource.String(), "account", what.as.String(), "cause", err.Error())
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[what] != this {
		return
	}

	this.stop()
	delete(w.running, what)
	if refused {
		for set := range w.users[what] { // to be looked at more often from now on
			w.queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: set}})
		}
		w.refused[what] = w.clock.Now().Add(refusedPause)
		w.log.Info("Changes of managed objects of this resource are noticed late, as it cannot be watched", "resource", what.resource.String(), "account", what.as.String(), "cause", err.Error())
	}
}

// wake enqueues the revision that controls an object.
func (w *watches) wake(changed any) {
	if gone, ok := changed.(cache.DeletedFinalStateUnknown); ok {
		changed = gone.Obj
	}

	object, ok := changed.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && isSet(owner) {
		w.queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: owner.Name}})
	}
}

func isSet(owner *metav1.OwnerReference) bool {
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return group == schema.GroupKind{Group: olmv1.GroupVersion.Group, Kind: olmv1.ClusterObjectSetKind}
}

// onlyOwners drops what the watch has no use for, before it is kept in memory.
func onlyOwners(changed any) (any, error) {
	if object, ok := changed.(*metav1.PartialObjectMetadata); ok {
		object.ManagedFields = nil
		object.Annotations = nil
		object.Labels = nil
	}
	return changed, nil
}
