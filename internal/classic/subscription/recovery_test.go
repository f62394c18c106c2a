package subscription_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// requestReconcile changes a label of a Subscription, because a fake clock does not trigger reconciles.
func (c *fixture) requestReconcile(sub *v1alpha1.Subscription) {
	c.T.Helper()
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Labels = map[string]string{"reconcile": rand.String(8)} })
}

// A ClusterServiceVersion that is deleted while its Subscription exists is installed again, in the same version, although
// spec.startingCSV names an older one. Until then a condition reports that it is missing.
func TestDeletedOperatorIsReinstalled(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Now())
	c := newFixtureWith(t, func(c *fixture) { c.clock = now })
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", startingAt("a.v1.0.0"))
	c.executePlan(c.waitForPlan(sub, "a.v1.0.0"))
	second := c.waitForPlan(sub, "a.v1.1.0")
	c.executePlan(second)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.1.0"
	})

	c.Must(c.Delete(t.Context(), &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "a.v1.1.0"}}))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		missing := condition(s, v1alpha1.SubscriptionCSVMissing)
		return s.State == v1alpha1.SubscriptionStateUpgradePending && missing.Status == corev1.ConditionTrue && missing.Reason == v1alpha1.ReinstallPending &&
			missing.Message == "ClusterServiceVersion a.v1.1.0 was deleted, and is installed again after 30s. To uninstall the operator, delete the Subscription first."
	})
	if n := len(c.listPlans()); n != 2 {
		t.Errorf("got %d plans before the delay has passed, want 2", n)
	}

	now.SetTime(now.Now().Add(time.Minute))
	c.requestReconcile(sub)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstallPlanRef != nil && s.InstallPlanRef.Name != second.Name
	})
	third := c.waitForPlan(sub, "a.v1.1.0")
	if diff := cmp.Diff([]string{"a.v1.1.0"}, third.Spec.ClusterServiceVersionNames); diff != "" {
		t.Errorf("ClusterServiceVersions of the plan (-want +got)\n%s", diff)
	}
	c.executePlan(third)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.1.0" && condition(s, v1alpha1.SubscriptionCSVMissing).Type == ""
	})
}

// A channel without the installed operator and without an update of it is reported.
func TestOlderChannelIsReported(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "2.0.0", channel: "fast"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Spec.Channel = "fast" })
	c.executePlan(c.waitForPlan(sub, "a.v2.0.0"))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.InstalledCSV == "a.v2.0.0" })
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.Channel = stable })
	want := `a.v2.0.0 is installed, but channel "stable" of package a in catalog ` + c.global + "/c has neither it nor an update of it, so that it stays as it is: " +
		"set spec.channel to fast, which has it, or wait for an update. OLM does not downgrade operators: to install a.v1.0.0, " +
		"delete the Subscription and the ClusterServiceVersion, and create the Subscription again."
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		missing := condition(s, v1alpha1.SubscriptionUpdatePathMissing)
		return missing.Reason == v1alpha1.InstalledCSVNotInChannel && missing.Message == want && s.State == v1alpha1.SubscriptionStateAtLatest
	})
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.Channel = "fast" })
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionUpdatePathMissing).Type == ""
	})
}

// An OperatorGroup may be created after the Subscription.
func TestOperatorGroupAfterSubscription(t *testing.T) {
	c := newFixture(t)
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	c.Must(c.Delete(t.Context(), group))
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionResolutionFailed).Message == "found 0 operatorGroups, expected 1. Create an OperatorGroup in namespace "+c.namespace+"."
	})
	group.ResourceVersion, group.UID = "", ""
	c.Must(c.Create(t.Context(), group))
	c.waitForPlan(sub, "a.v1.0.0")
	if failed := condition(&sub.Status, v1alpha1.SubscriptionResolutionFailed); failed.Type != "" {
		t.Errorf("got the condition %+v, want none", failed)
	}
}

// A failed unpack is repeated when its Job is deleted, as Kubernetes does after some minutes. There is no need to delete the
// ConfigMap, the Subscription or the ClusterServiceVersion.
func TestFailedUnpackIsRepeated(t *testing.T) {
	c := newFixture(t)
	r := catalogRelease{pkg: "a", version: "1.0.0", image: image}
	address, _ := serveCatalog(t, "", r)
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	job := c.findUnpackJob()
	c.failUnpackJob(job)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionBundleUnpackFailed).Reason == v1alpha1.ReasonBundleUnpackFailed
	})

	c.Must(c.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	c.requestReconcile(sub)
	c.eventually(func() error {
		next := c.findUnpackJob()
		if next.UID == job.UID {
			return fmt.Errorf("job %s is still the failed one", job.Name)
		}
		return nil
	})
	c.writeUnpackedBundle(r.csv())
	c.requestReconcile(sub)
	c.waitForPlan(sub, "a.v1.0.0")
}
