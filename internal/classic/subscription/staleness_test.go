package subscription_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// delayedWatches is a transport of the controllers that can hold back the events of a kind, so that their cache becomes
// outdated. It also observes how they react.
type delayedWatches struct {
	next http.RoundTripper

	mu sync.Mutex
	// held is the resource whose events are held back, until released is closed.
	held     string
	released chan struct{}
	// lists counts the lists of Subscriptions that are no watches. failures are the written conditions ResolutionFailed and
	// InstallPlanMissing since the last hold, and writes counts the writes of the statuses of Subscriptions since then.
	lists, writes int
	failures      []v1alpha1.SubscriptionCondition
}

// RoundTrip implements http.RoundTripper.
func (d *delayedWatches) RoundTrip(request *http.Request) (*http.Response, error) {
	resource := path.Base(request.URL.Path)
	isWatch := request.URL.Query().Get("watch") != ""
	d.observe(request, resource, isWatch)

	response, err := d.next.RoundTrip(request)
	if err == nil && isWatch {
		response.Body = &delayedBody{ReadCloser: response.Body, watches: d, resource: resource}
	}
	return response, err
}

// observe counts a list of Subscriptions, and records the failures that are written.
func (d *delayedWatches) observe(request *http.Request, resource string, isWatch bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case request.Method == http.MethodGet && resource == "subscriptions" && !isWatch:
		d.lists++
	case request.Method == http.MethodPatch && resource == "status":
		if strings.Contains(request.URL.Path, "/subscriptions/") {
			d.writes++
		}
		body, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(body))
		var sub v1alpha1.Subscription
		_ = json.Unmarshal(body, &sub)
		for _, kind := range []string{v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionInstallPlanMissing} {
			if failed := condition(&sub.Status, kind); failed.Status == corev1.ConditionTrue {
				d.failures = append(d.failures, failed)
			}
		}
	}
}

// hold holds back the events of a resource until release is called or the test ends. It forgets the earlier failures.
func (d *delayedWatches) hold(t *testing.T, resource string) (release func()) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	released := make(chan struct{})
	d.held, d.released, d.failures, d.writes = resource, released, nil, 0
	release = sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held = ""
		close(released)
	})
	t.Cleanup(release)
	return release
}

// delayedBody is the body of a watch.
type delayedBody struct {
	io.ReadCloser

	watches  *delayedWatches
	resource string
}

// Read implements io.Reader. It returns what it has read when the events are not held back any more.
func (b *delayedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watches.mu.Lock()
	held, released := b.watches.held, b.watches.released
	b.watches.mu.Unlock()
	if held == b.resource {
		<-released
	}
	return n, err
}

func (d *delayedWatches) countLists() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lists
}

func (d *delayedWatches) countWrites() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

func (d *delayedWatches) listFailures() []v1alpha1.SubscriptionCondition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures
}

// wantNoFailures checks that no failure was written.
func (d *delayedWatches) wantNoFailures(t *testing.T) {
	t.Helper()
	if failures := d.listFailures(); len(failures) > 0 {
		t.Errorf("got %d failures in the statuses of Subscriptions, want none: %+v", len(failures), failures)
	}
}

// newDelayedFixture is newFixtureWith with watches that can be held back.
func newDelayedFixture(t *testing.T, changes ...func(*fixture)) (*fixture, *delayedWatches) {
	t.Helper()
	c, admin := newFixtureWithoutControllers(t)
	for _, change := range changes {
		change(c)
	}
	watches := &delayedWatches{}
	connection := rest.CopyConfig(admin)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
		watches.next = next
		return watches
	})
	c.startControllers(connection)
	return c, watches
}

// waitForDecision waits until the controllers have compared their cache with the API server or reported a failure, after
// a number of lists.
func (c *fixture) waitForDecision(watches *delayedWatches, lists int) {
	c.T.Helper()
	c.EventuallyTrue("the controller has decided on an outdated cache", func() bool {
		return watches.countLists() > lists || len(watches.listFailures()) > 0
	}, nil)
}

// During an upgrade, the InstallPlan is complete before the cache knows of it, while the requirements of the new operator
// are not met yet. The Subscription does not report that nothing can be resolved.
func TestUpgradeWithOutdatedPlanDoesNotFail(t *testing.T) {
	c, watches := newDelayedFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0", channel: "fast"})
	c.createCatalog(c.global, "c", address)
	old := c.createCSV("a.v1.0.0", "")
	c.setPhase(old, v1alpha1.CSVPhaseSucceeded)
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })

	release := watches.hold(t, "installplans")
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.Channel = "fast" })
	plan := c.waitForPlan(sub, "a.v1.1.0")
	lists := watches.countLists()

	young := c.createCSV("a.v1.1.0", "a.v1.0.0")
	before := plan.DeepCopy()
	plan.Status.Phase = v1alpha1.InstallPlanPhaseComplete
	now := metav1.Now()
	plan.Status.Conditions = []v1alpha1.InstallPlanCondition{{
		Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionTrue, LastTransitionTime: &now, LastUpdateTime: &now,
	}}
	c.Must(c.Status().Patch(t.Context(), plan, client.MergeFrom(before)))
	unchecked := young.DeepCopy()
	young.Status.Phase, young.Status.Reason = v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet
	c.Must(c.Status().Patch(t.Context(), young, client.MergeFrom(unchecked)))
	c.waitForDecision(watches, lists)

	release()
	c.setPhase(young, v1alpha1.CSVPhaseSucceeded)
	c.Must(c.Delete(t.Context(), old))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.1.0" && len(s.Conditions) == 1
	})
	watches.wantNoFailures(t)
}

// An operator was deleted, but the cache still has it. A new Subscription to another version does not report a conflict
// with it.
func TestDeletedOperatorInCacheIsNoConflict(t *testing.T) {
	c, watches := newDelayedFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "2.0.0", channel: "fast"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Spec.Channel = "fast" })
	c.executePlan(c.waitForPlan(sub, "a.v2.0.0"))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })

	c.Must(c.Delete(t.Context(), sub))
	release := watches.hold(t, "clusterserviceversions")
	c.Must(c.Delete(t.Context(), &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "a.v2.0.0"}}))
	lists := watches.countLists()
	sub = c.createSubscription("a")
	c.waitForDecision(watches, lists)

	release()
	c.waitForPlan(sub, "a.v1.0.0")
	watches.wantNoFailures(t)
}

// An OperatorGroup and a Subscription are created together, and the cache has only the Subscription. It does not report that
// there is no OperatorGroup.
func TestNewOperatorGroupMissingInCacheDoesNotFail(t *testing.T) {
	c, watches := newDelayedFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	c.Must(c.Delete(t.Context(), group))
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return strings.HasPrefix(condition(s, v1alpha1.SubscriptionResolutionFailed).Message, "found 0 operatorGroups") &&
			condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Reason == v1alpha1.AllCatalogSourcesHealthy
	})
	c.Must(c.Delete(t.Context(), sub))

	release := watches.hold(t, "operatorgroups")
	lists := watches.countLists()
	c.Must(c.Create(t.Context(), group))
	sub = c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Name = "second" })
	c.waitForDecision(watches, lists)

	release()
	c.waitForPlan(sub, "a.v1.0.0")
	watches.wantNoFailures(t)
}

// An operator is installed before the cache has its InstallPlan. The Subscription does not report that the plan is missing.
func TestPlanMissingInCacheDoesNotFail(t *testing.T) {
	c, watches := newDelayedFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	c.waitForPlan(c.createSubscription("b"), "b.v1.0.0") // The cache is complete.

	release := watches.hold(t, "installplans")
	sub := c.createSubscription("a")
	plan := c.waitForPlan(sub, "a.v1.0.0")
	lists := watches.countLists()
	c.setPhase(c.createCSV("a.v1.0.0", ""), v1alpha1.CSVPhaseSucceeded)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })
	c.waitForDecision(watches, lists)

	release()
	c.executePlan(plan)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && len(s.Conditions) == 1
	})
	watches.wantNoFailures(t)
}

// The status of a Subscription is written, and the cache does not have it yet. A pass in between does not write it again,
// which would be a conflict.
func TestStatusMissingInCacheIsNotWrittenAgain(t *testing.T) {
	c, watches := newDelayedFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	plan := c.waitForPlan(sub, "a.v1.0.0")
	c.eventually(func() error {
		if countSyncs(t, sub.Name) < 2 {
			return errors.New("the cache may not have the InstallPlan of the Subscription")
		}
		return nil
	})

	release := watches.hold(t, "subscriptions")
	c.executePlan(plan)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })
	writes, passes := watches.countWrites(), countPasses(t)
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	env.EditObject(c.Fixture, group, func(g *operatorsv1.OperatorGroup) { g.Annotations = map[string]string{"changed": "true"} })
	c.eventually(func() error {
		if done := countPasses(t) - passes; done < 3 {
			return fmt.Errorf("%v passes over the namespace have ended", done)
		}
		return nil
	})
	if got := watches.countWrites(); got != writes {
		t.Errorf("the status was written %d times, want %d", got, writes)
	}

	release()
	c.eventually(func() error {
		if countPasses(t)-passes < 4 {
			return errors.New("no pass over the namespace since the cache has the status")
		}
		return nil
	})
	if got := watches.countWrites(); got != writes {
		t.Errorf("the status was written %d times after the cache had it, want %d", got, writes)
	}
}

// countPasses returns how many passes over namespaces have ended.
func countPasses(t *testing.T) float64 {
	t.Helper()
	return sumCounters(t, "controller_runtime_reconcile_total", "controller", "subscription")
}

// interruptedCatalogs are catalogs without a connection at the first use.
type interruptedCatalogs struct {
	snapshot.Catalogs

	uses atomic.Int32
}

// Client implements snapshot.Catalogs.
func (c *interruptedCatalogs) Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool) {
	if c.uses.Add(1) == 1 {
		return nil, false
	}
	return c.Catalogs.Client(catalog)
}

// The connection to a catalog is interrupted when an operator gets a new Subscription, and returns at once. The
// Subscription does not report a conflict with the operator, but adopts it.
func TestInterruptedCatalogIsNoConflict(t *testing.T) {
	c, watches := newDelayedFixture(t, func(c *fixture) {
		c.wrapCatalogs = func(all snapshot.Catalogs) snapshot.Catalogs { return &interruptedCatalogs{Catalogs: all} }
	})
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	catalog := c.createCatalog(c.global, "c", address)
	c.waitUntilConnected(catalog)

	c.setPhase(c.createCSV("a.v1.0.0", ""), v1alpha1.CSVPhaseSucceeded)
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.0.0" && condition(s, v1alpha1.SubscriptionResolutionFailed).Type == ""
	})
	for _, failed := range watches.listFailures() {
		if failed.Reason == v1alpha1.ConstraintsNotSatisfiable {
			t.Errorf("got a conflict, want none: %s", failed.Message)
		}
	}
}
