package subscription_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func manual(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual }

// expectNames fails the test unless a plan installs these ClusterServiceVersions.
func (c *fixture) expectNames(plan *v1alpha1.InstallPlan, want ...string) {
	c.T.Helper()
	if diff := cmp.Diff(want, plan.Spec.ClusterServiceVersionNames); diff != "" {
		c.T.Errorf("ClusterServiceVersions of plan %s (-want +got)\n%s", plan.Name, diff)
	}
}

// A catalog that cannot be read stops only the Subscriptions that need it, and the condition names it.
func TestUnreadableCatalogStopsOnlyItsOperators(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "needy", version: "1.0.0", properties: []string{requires("B")}})
	c.createCatalog(c.global, "c", address)
	gone, stop := serveCatalog(t, "")
	stop()
	c.createCatalog(c.global, "d", gone)
	sub, needy := c.createSubscription("a"), c.createSubscription("needy")
	other := c.createSubscription("b", func(s *v1alpha1.Subscription) { s.Spec.CatalogSource = "d" })
	c.expectNames(c.waitForPlan(sub, "a.v1.0.0"), "a.v1.0.0")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Status == corev1.ConditionTrue && condition(s, v1alpha1.SubscriptionResolutionFailed).Type == ""
	})
	for _, failing := range []*v1alpha1.Subscription{other, needy} {
		c.waitForStatus(failing, func(s *v1alpha1.SubscriptionStatus) bool {
			failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
			return failed.Reason == v1alpha1.ErrorPreventedResolution && strings.HasPrefix(failed.Message, "error using catalogsource "+c.global+"/d: failed to list bundles: ") &&
				strings.HasSuffix(failed.Message, "Repair or delete CatalogSource d in namespace "+c.global+", which 'kubectl describe catalogsource d -n "+c.global+"' describes.")
		})
	}

	// Once the catalog is served, the operators that need it are installed.
	serveCatalog(t, gone, catalogRelease{pkg: "b", version: "1.0.0", properties: []string{provides("B")}})
	c.expectNames(c.waitForPlan(needy, "needy.v1.0.0"), "b.v1.0.0", "needy.v1.0.0")
	c.waitForPlan(other, "b.v1.0.0")
	// Global catalogs can be excluded.
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	env.EditObject(c.Fixture, group, func(g *operatorsv1.OperatorGroup) {
		g.Annotations = map[string]string{operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation: "true"}
	})
	third := c.createSubscription("third")
	c.waitForStatus(third, func(s *v1alpha1.SubscriptionStatus) bool {
		return strings.HasPrefix(condition(s, v1alpha1.SubscriptionResolutionFailed).Message, "constraints not satisfiable: no operators found from catalog c ")
	})
}

// A Subscription that cannot be satisfied stops only itself and what depends on it.
func TestUnsatisfiableSubscriptionStopsOnlyItself(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	bad := c.createSubscription("b", func(s *v1alpha1.Subscription) { s.Spec.Channel = "none" })
	sub := c.createSubscription("a")
	c.expectNames(c.waitForPlan(sub, "a.v1.0.0"), "a.v1.0.0")
	c.waitForStatus(bad, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionResolutionFailed).Reason == v1alpha1.ConstraintsNotSatisfiable
	})
	if failed := condition(&sub.Status, v1alpha1.SubscriptionResolutionFailed); failed.Type != "" {
		t.Errorf("Subscription a got the condition %+v", failed)
	}
}

// A Manual Subscription holds only what depends on it. Each operator has an InstallPlan of its own, and one approval
// installs one operator.
func TestManualSubscriptionHoldsOnlyItsDependents(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "",
		catalogRelease{pkg: "a", version: "1.0.0", properties: []string{provides("A")}}, catalogRelease{pkg: "b", version: "1.0.0"},
		catalogRelease{pkg: "d", version: "1.0.0", properties: []string{requires("A")}}, catalogRelease{pkg: "e", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	a, e := c.createSubscription("a", manual), c.createSubscription("e", manual)
	b, d := c.createSubscription("b"), c.createSubscription("d")
	planA, planB, planD, planE := c.waitForPlan(a, "a.v1.0.0"), c.waitForPlan(b, "b.v1.0.0"), c.waitForPlan(d, "d.v1.0.0"), c.waitForPlan(e, "e.v1.0.0")
	c.eventually(func() error { // The first plan of a may be older than Subscription d.
		planA, planD = c.waitForPlan(a, "a.v1.0.0"), c.waitForPlan(d, "d.v1.0.0")
		if planA.Name != planD.Name {
			return fmt.Errorf("got plan %s of a and plan %s of d", planA.Name, planD.Name)
		}
		return nil
	})
	c.expectNames(planA, "a.v1.0.0", "d.v1.0.0")
	c.expectNames(planB, "b.v1.0.0")
	c.expectNames(planE, "e.v1.0.0")
	for plan, isApproved := range map[*v1alpha1.InstallPlan]bool{planA: false, planB: true, planE: false} {
		if plan.Spec.Approved != isApproved {
			t.Errorf("plan %s of %v: got approved %t, want %t", plan.Name, plan.Spec.ClusterServiceVersionNames, plan.Spec.Approved, isApproved)
		}
	}
	if owners := planE.OwnerReferences; len(owners) != 1 || owners[0].UID != e.UID {
		t.Errorf("got the owners %+v of the plan of e", owners)
	}
	seen := map[int]bool{}
	for _, plan := range c.listPlans() {
		if seen[plan.Spec.Generation] {
			t.Errorf("got two plans with generation %d", plan.Spec.Generation)
		}
		seen[plan.Spec.Generation] = true
	}
}

// With one plan per namespace, a Manual Subscription holds all others.
func TestOnePlanPerNamespace(t *testing.T) {
	c := newFixtureWith(t, func(c *fixture) { c.onePlan = true })
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"})
	a, b := c.createSubscription("a", manual), c.createSubscription("b")
	c.createCatalog(c.global, "c", address)
	plan := c.waitForPlan(b, "b.v1.0.0")
	c.expectNames(plan, "a.v1.0.0", "b.v1.0.0")
	if plan.Spec.Approved || c.waitForPlan(a, "a.v1.0.0").Name != plan.Name || len(plan.OwnerReferences) != 2 {
		t.Errorf("got the plan %+v with the owners %+v", plan.Spec, plan.OwnerReferences)
	}

	c.Must(c.Delete(t.Context(), plan))
	env.EditObject(c.Fixture, a, func(s *v1alpha1.Subscription) { s.Spec.Channel = "none" })
	c.waitForStatus(b, func(s *v1alpha1.SubscriptionStatus) bool {
		return strings.Contains(condition(s, v1alpha1.SubscriptionResolutionFailed).Message, "no operators found in channel none of package a")
	})
}

// A changed approval applies to the waiting plan.
func TestChangedApprovalActsOnWaitingPlan(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", manual)
	plan := c.waitForPlan(sub, "a.v1.0.0")
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalAutomatic })
	c.WaitUntilGone(plan, c.namespace, plan.Name)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstallPlanRef != nil && s.InstallPlanRef.UID != plan.UID
	})
	if next := c.waitForPlan(sub, "a.v1.0.0"); !next.Spec.Approved || next.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		t.Errorf("got the next plan %+v in phase %s", next.Spec, next.Status.Phase)
	}
}

// A plan that was never approved is superseded when the catalog has another version, and not while the catalog cannot be
// read. If nothing is to be installed any more, none replaces it.
func TestUnapprovedPlanIsSuperseded(t *testing.T) {
	c := newFixture(t)
	first := catalogRelease{pkg: "a", version: "1.0.0"}
	second, third := catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"}, catalogRelease{pkg: "a", version: "1.2.0", replaces: "a.v1.0.0"}
	address, stop := serveCatalog(t, "", first)
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", manual)
	plan := c.waitForPlan(sub, "a.v1.0.0")
	env.EditObject(c.Fixture, plan, func(p *v1alpha1.InstallPlan) { p.Spec.Approved = true })
	c.executePlan(plan)
	stop()
	_, stop = serveCatalog(t, address, first, second)
	old := c.waitForPlan(sub, "a.v1.1.0")

	stop()
	_, stop = serveCatalog(t, address, first, third)
	c.WaitUntilGone(old, c.namespace, old.Name)
	last := c.waitForPlan(sub, "a.v1.2.0")
	if last.Spec.Approved || last.Spec.Generation <= old.Spec.Generation {
		t.Errorf("got the last plan %+v", last.Spec)
	}

	stop()
	serveCatalog(t, address, first)
	c.WaitUntilGone(last, c.namespace, last.Name)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.CurrentCSV == "a.v1.0.0" && s.InstallPlanRef == nil
	})
}

// A bundle that cannot be unpacked stops only its package and what depends on it. The condition stays while their
// dependencies are being installed.
func TestBrokenBundleStopsOnlyItsDependents(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "",
		catalogRelease{pkg: "a", version: "1.0.0", image: image, properties: []string{requires("B"), provides("A")}},
		catalogRelease{pkg: "b", version: "1.0.0", properties: []string{provides("B")}},
		catalogRelease{pkg: "d", version: "1.0.0", properties: []string{requires("A")}},
		catalogRelease{pkg: "e", version: "1.0.0"})
	a, b, d, e := c.createSubscription("a"), c.createSubscription("b"), c.createSubscription("d"), c.createSubscription("e")
	c.createCatalog(c.global, "c", address)
	c.expectNames(c.waitForPlan(e, "e.v1.0.0"), "e.v1.0.0")
	c.failUnpackJob(c.findUnpackJob())
	isBroken := func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return strings.HasPrefix(failed.Message, "Bundle unpacking failed - DeadlineExceeded: ") && s.InstallPlanRef == nil
	}
	c.waitForStatus(a, isBroken)
	c.waitForStatus(d, isBroken)
	c.expectNames(c.waitForPlan(b, "b.v1.0.0"), "b.v1.0.0")

	// Statuses are patched in the order of the names, so that those of a and d are up to date when that of f is patched.
	f := c.createSubscription("f")
	c.waitForStatus(f, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionResolutionFailed).Status == corev1.ConditionTrue
	})
	for _, broken := range []*v1alpha1.Subscription{a, d} {
		c.Must(c.get(broken))
		if !isBroken(&broken.Status) {
			t.Errorf("Subscription %s: got the conditions %+v, want %s", broken.Name, broken.Status.Conditions, v1alpha1.SubscriptionBundleUnpackFailed)
		}
	}
	if failed := condition(&b.Status, v1alpha1.SubscriptionBundleUnpackFailed); failed.Type != "" {
		t.Errorf("Subscription b got the condition %+v", failed)
	}
}

// An operator that is being updated, or whose plan has failed, does not stop another.
func TestUpdateStopsNoOtherOperator(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"}, catalogRelease{pkg: "d", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	a := c.createSubscription("a")
	plan := c.waitForPlan(a, "a.v1.0.0")
	b := c.createSubscription("b")
	c.expectNames(c.waitForPlan(b, "b.v1.0.0"), "b.v1.0.0")
	c.PatchStatus(plan, func() { plan.Status.Phase = v1alpha1.InstallPlanPhaseFailed })
	c.waitForStatus(a, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionInstallPlanFailed).Status == corev1.ConditionTrue
	})
	d := c.createSubscription("d")
	c.expectNames(c.waitForPlan(d, "d.v1.0.0"), "d.v1.0.0")
	if n := len(c.listPlans()); n != 3 {
		t.Errorf("got %d plans, want 3", n)
	}
}
