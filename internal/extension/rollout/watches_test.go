package rollout

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

type watchFixture struct {
	*watchManager
	*env.Fixture
	// observer is the client that watches.
	observer metadata.Interface
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
	clock    *clocktesting.FakePassiveClock
}

func newWatchFixture(t *testing.T, user string) *watchFixture {
	t.Helper()
	config := env.Start(t)
	config.Impersonate.UserName = user
	observer, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	b := &watchFixture{
		Fixture: env.NewFixture(t, corev1.AddToScheme, apiextensionsv1.AddToScheme), observer: observer,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]()),
		clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	b.watchManager = newWatchManager(b.clock, logr.Discard())
	if err := b.Start(t.Context(), b.queue); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(b.queue.ShutDown)
	return b
}

// waitForEnqueued waits until a revision is enqueued, and returns its name.
func (b *watchFixture) waitForEnqueued() string {
	request, _ := b.queue.Get()
	b.queue.Done(request)
	return request.Name
}

// waitUntilUnwatched waits until a resource is not watched.
func (b *watchFixture) waitUntilUnwatched(resource schema.GroupVersionResource) {
	b.T.Helper()
	b.EventuallyTrue("the resource is not watched", func() bool { return !b.isWatched(resource) }, nil)
}

func (b *watchFixture) isWatched(resource schema.GroupVersionResource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[watchKey{resource: resource}] != nil
}

func withController(object client.Object, set string) client.Object {
	yes := true
	object.SetLabels(map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind})
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set, UID: "uid", Controller: &yes,
	}})
	return object
}

func TestWatchBeginsAndEndsWithItsUsers(t *testing.T) {
	b := newWatchFixture(t, "")
	b.ensureWatch("one-1", watchKey{resource: configMaps}, b.observer)
	b.ensureWatch("two-1", watchKey{resource: configMaps}, b.observer)
	object := withController(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "watched"}}, "one-1")
	if err := b.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if got := b.waitForEnqueued(); got != "one-1" {
		t.Errorf("got %s enqueued, want none", got)
	}

	b.release("one-1")
	if !b.isWatched(configMaps) {
		t.Error("the watch ended with the first of two users")
	}

	// An object that changes its owner enqueues both revisions.
	withController(object, "two-1")
	if err := b.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if got := []string{b.waitForEnqueued(), b.waitForEnqueued()}; got[0] != "one-1" || got[1] != "two-1" {
		t.Errorf("got %v enqueued", got)
	}

	b.release("two-1")
	if b.isWatched(configMaps) || len(b.users) > 0 || len(b.running) > 0 {
		t.Error("the watch did not end with its last user")
	}
}

func TestWatchEndsWithItsKind(t *testing.T) {
	b := newWatchFixture(t, "")
	resource := schema.GroupVersionResource{Group: "watch.example.com", Version: "v1", Resource: "things"}
	b.ensureWatch("kind-1", watchKey{resource: resource}, b.observer)
	b.waitUntilUnwatched(resource)

	crd := builder.CRD("watch.example.com", "things", "Thing")
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	if err := b.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "watch.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"}}}
	withController(thing, "kind-1")
	// The kind is served a moment after its creation.
	b.Eventually("an object of the kind is created", func() error { return b.Create(t.Context(), thing) })
	b.ensureWatch("kind-1", watchKey{resource: resource}, b.observer)
	if got := b.waitForEnqueued(); got != "kind-1" {
		t.Errorf("got %s enqueued", got)
	}
	if err := b.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if got := b.waitForEnqueued(); got != "kind-1" {
		t.Errorf("got %s enqueued", got)
	}

	b.waitUntilUnwatched(resource)
}

func TestRefusedWatchIsAskedForLater(t *testing.T) {
	b := newWatchFixture(t, "nobody")
	b.ensureWatch("refused-1", watchKey{resource: configMaps}, b.observer)
	b.waitUntilUnwatched(configMaps)
	b.ensureWatch("refused-1", watchKey{resource: configMaps}, b.observer)
	if b.isFullyWatched("refused-1") {
		t.Error("a revision whose resource is not watched is reported as covered")
	}
	if b.isWatched(configMaps) {
		t.Error("the watch was requested again at once")
	}

	b.clock.SetTime(b.clock.Now().Add(refusedWatchRetryInterval))
	b.ensureWatch("refused-1", watchKey{resource: configMaps}, b.observer)
	if !b.isFullyWatched("refused-1") {
		t.Error("the watch was not requested again")
	}

	b.release("refused-1")
}
