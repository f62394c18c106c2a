package subscription_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// Instances that stop after each write are followed by one that keeps running. The operators and their update are
// installed by one InstallPlan each, and no plan without steps remains.
func TestRestartAfterEachWrite(t *testing.T) {
	c, admin := newFixtureWithoutControllers(t)
	address, _ := serveCatalog(t, "",
		catalogRelease{pkg: "a", version: "1.0.0", properties: []string{requires("B")}},
		catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0", properties: []string{requires("B")}},
		catalogRelease{pkg: "b", version: "1.0.0", properties: []string{provides("B")}})
	c.createCatalog(c.global, "c", address)
	sub, other := c.createSubscription("a", startingAt("a.v1.0.0")), c.createSubscription("b")
	run := func(ctx context.Context, connection *rest.Config) { _ = runControllers(ctx, connection, c) } // The error of a stopped instance does not matter.
	isDone := func(csv string) func() bool {
		return func() bool {
			c.Must(c.get(sub))
			return sub.Status.CurrentCSV == csv && sub.Status.InstallPlanRef != nil && c.hasSteps(sub.Status.InstallPlanRef.Name)
		}
	}

	c.runUntilDone(admin, run, isDone("a.v1.0.0"))
	c.executePlan(c.waitForPlan(sub, "a.v1.0.0"))
	c.runUntilDone(admin, run, isDone("a.v1.1.0"))
	c.executePlan(c.waitForPlan(sub, "a.v1.1.0"))
	last := mortal.Start(t.Context(), admin, 1<<30, run)
	defer last.Kill()
	for _, s := range []*v1alpha1.Subscription{sub, other} {
		c.waitForStatus(s, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })
	}

	if sub.Status.InstalledCSV != "a.v1.1.0" || other.Status.InstalledCSV != "b.v1.0.0" {
		t.Errorf("got installed %s and %s", sub.Status.InstalledCSV, other.Status.InstalledCSV)
	}

	executed := 0
	for _, plan := range c.listPlans() {
		if plan.Status.Phase == v1alpha1.InstallPlanPhaseComplete {
			executed++
		}
	}

	if executed != 2 {
		t.Errorf("got %d executed plans", executed)
	}
}

// Instances that stop after each write create one InstallPlan for each of two operators, and replace the one that waits for
// approval when the catalog has another version.
func TestRestartWithSeveralPlans(t *testing.T) {
	c, admin := newFixtureWithoutControllers(t)
	first, second := catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"}
	address, stop := serveCatalog(t, "", first, second)
	a, b := c.createSubscription("a", manual), c.createSubscription("b")
	c.createCatalog(c.global, "c", address)
	run := func(ctx context.Context, connection *rest.Config) { _ = runControllers(ctx, connection, c) }
	isDone := func(csv string) func() bool {
		return func() bool {
			c.Must(c.get(a))
			c.Must(c.get(b))
			return a.Status.CurrentCSV == csv && a.Status.InstallPlanRef != nil && c.hasSteps(a.Status.InstallPlanRef.Name) &&
				b.Status.InstallPlanRef != nil && c.hasSteps(b.Status.InstallPlanRef.Name)
		}
	}

	c.runUntilDone(admin, run, isDone("a.v1.0.0"))
	stop()
	serveCatalog(t, address, first, second, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.runUntilDone(admin, run, isDone("a.v1.1.0"))
	last := mortal.Start(t.Context(), admin, 1<<30, run)
	defer last.Kill()
	c.eventually(func() error {
		want := map[string]string{a.Status.InstallPlanRef.Name: "a.v1.1.0", b.Status.InstallPlanRef.Name: "b.v1.0.0"}
		got := map[string]string{}
		for _, plan := range c.listPlans() {
			got[plan.Name] = strings.Join(plan.Spec.ClusterServiceVersionNames, ", ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("plans (-want +got)\n%s", diff)
		}
		return nil
	})
}

func (c *fixture) hasSteps(plan string) bool {
	p := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: plan}}
	return c.get(p) == nil && len(p.Status.Plan) > 0
}

// runUntilDone runs instances, each of which may write once more than the one before, until isDone is true.
func (c *fixture) runUntilDone(admin *rest.Config, run func(context.Context, *rest.Config), isDone func() bool) {
	c.T.Helper()
	for writes := int64(1); !isDone(); writes++ {
		if writes > 40 {
			c.T.Fatal("the controllers are not done after 40 writes")
		}
		life := mortal.Start(c.T.Context(), admin, writes, run)
		c.eventually(func() error {
			if life.IsDead() || isDone() {
				return nil
			}
			return fmt.Errorf("the instance with %d writes has neither stopped nor finished", writes)
		})
		life.Kill()
	}
}
