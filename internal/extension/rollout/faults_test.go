package rollout_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestClockJumps sets the clock forward and back while a revision is rolled out and kept.
func TestClockJumps(t *testing.T) {
	const day, years = 24 * time.Hour, 10 * 365 * 24 * time.Hour
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	clock := &env.JumpingClock{}
	c.startController(clock)
	set := newRevision("jumps", 1, newPhase("deploy", deploymentManifest(ns, "app")), newPhase("publish", configMapManifest(ns, "config", "right")))
	minutes := int32(10)
	set.Spec.ProgressDeadlineMinutes = &minutes
	c.CreateAll(set)
	c.waitForCondition("jumps-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)

	// A deadline that seems to have passed stops nothing, and its report is withdrawn.
	clock.JumpTo(day)
	c.annotateDeployment(ns, "app", "forward")
	c.waitForCondition("jumps-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonProgressDeadlineExceeded)
	clock.JumpTo(-day)
	c.annotateDeployment(ns, "app", "back")
	c.waitForCondition("jumps-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	clock.JumpTo(years)
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("jumps-1")

	// Drift of the revision is corrected at any time.
	for _, to := range []time.Duration{-years, years, 0} {
		clock.JumpTo(to)
		config := &corev1.ConfigMap{}
		c.get(config, ns, "config")
		config.Data["key"] = "wrong"
		if err := c.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}

		c.Eventually(fmt.Sprintf("the field is reset %s from now", to), func() error {
			c.get(config, ns, "config")
			return errorUnless(config.Data["key"] == "right", "key is %q", config.Data["key"])
		})
	}

	c.waitUntilSucceeded("jumps-1")
}

// annotateDeployment changes a Deployment, so that its revision is reconciled.
func (c *fixture) annotateDeployment(namespace, name, value string) {
	c.T.Helper()
	app := builder.FromYAML(deploymentManifest(namespace, name))
	c.get(app, namespace, name)
	c.PatchObject(app, func() { app.SetAnnotations(map[string]string{"example.com/touched": value}) })
}

// TestFloodOfLabelledObjects has a tenant create thousands of objects with the labels of a
// revision, and change them. The revision is kept and another one is rolled out meanwhile, at
// no more requests than usual, and none of the tenant's objects is touched.
func TestFloodOfLabelledObjects(t *testing.T) {
	const (
		flood   = 3000
		changed = 500
		// maxRequests limits the requests of the controller during the flood: some for each
		// action of the test itself, and none for those of the tenant.
		maxRequests = 100
	)
	c := newFixture(t)
	ns, tenant := c.NewNamespace("rollout-"), c.NewNamespace("rollout-")
	var requests atomic.Int64
	connection := env.Start(t)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(request)
		})
	})
	c.runController(connection)
	victim := newRevision("victim", 1, newPhase("configuration", configMapManifest(ns, "config", "right")))
	c.CreateAll(victim)
	c.waitUntilSucceeded("victim-1")

	// Half of them claim to be controlled by the revision, half by one that does not exist.
	before := requests.Load()
	isController := true
	owner := func(i int) metav1.OwnerReference {
		reference := metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: victim.Name, UID: victim.UID, Controller: &isController}
		if i%2 == 1 {
			reference.Name, reference.UID = fmt.Sprintf("nobody-%d", i), "11111111-2222-3333-4444-555555555555"
		}
		return reference
	}
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := range flood {
		writers.Go(func() error {
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: tenant, Name: fmt.Sprintf("flood-%d", i), Labels: victim.Labels, OwnerReferences: []metav1.OwnerReference{owner(i)},
			}}
			if err := c.Create(t.Context(), made); err != nil || i >= changed {
				return err
			}
			made.Data = map[string]string{"key": "changed"}
			return c.Update(t.Context(), made)
		})
	}

	// Other work continues.
	c.CreateAll(newRevision("bystander", 1, newPhase("configuration", configMapManifest(ns, "other", "x"))))
	c.waitUntilSucceeded("bystander-1")
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{}
	c.get(config, ns, "config")
	config.Data["key"] = "wrong"
	if err := c.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the field is reset", func() error {
		c.get(config, ns, "config")
		return errorUnless(config.Data["key"] == "right", "key is %q", config.Data["key"])
	})
	got := requests.Load() - before
	t.Logf("the controller sent %d requests during the flood", got)
	if got > maxRequests {
		t.Errorf("got %d requests of the controller during the flood, want at most %d", got, maxRequests)
	}

	// The revision is deleted, with only the objects that it created.
	if err := c.Delete(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	c.WaitUntilGone(victim, "", "victim-1")
	var left corev1.ConfigMapList
	if err := c.List(t.Context(), &left, client.InNamespace(tenant), client.HasLabels{olmv1.LabelOwnerName}); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != flood {
		t.Errorf("got %d objects of the tenant, want %d", len(left.Items), flood)
	}
	for i := range left.Items {
		for _, entry := range left.Items[i].ManagedFields {
			if entry.Manager == "mainstay" {
				t.Fatalf("ConfigMap %s of the tenant was written", left.Items[i].Name)
			}
		}
	}
}

// runController runs the controller with a connection until the test ends.
func (c *fixture) runController(connection *rest.Config) {
	c.T.Helper()
	stop := env.StartManager(c.T, c.newManager(connection))
	c.T.Cleanup(func() {
		c.removeLeftoverSets()
		stop()
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
