package subscription_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A second reconcile of an unchanged state writes nothing.
func TestSecondReconcileWritesNothing(t *testing.T) {
	c, admin := newFixtureWithoutControllers(t)
	var writes atomic.Int64
	admin.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func(connection *rest.Config) { done <- runControllers(ctx, connection, c) }(admin)
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	catalog := c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Name = "settled" })
	c.executePlan(c.waitForPlan(sub, "a.v1.0.0"))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && len(s.Conditions) == 1 &&
			condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Reason == v1alpha1.AllCatalogSourcesHealthy
	})
	c.waitUntilConnected(catalog)

	before := writes.Load()
	// Reconciles of a namespace do not overlap: the first two have ended when the third begins.
	for i := range 3 {
		looks := countSyncs(t, "settled")
		env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Labels = map[string]string{"look": strconv.Itoa(i)} })
		c.eventually(func() error {
			if countSyncs(t, "settled") == looks {
				return errors.New("nobody has looked")
			}
			return nil
		})
	}

	if n := writes.Load() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// countSyncs returns how often Subscriptions of a name were reconciled.
func countSyncs(t *testing.T, name string) float64 {
	t.Helper()
	return sumCounters(t, "subscription_sync_total", "name", name)
}

// sumCounters returns the sum of the counters of a metric that have a label.
func sumCounters(t *testing.T, metric, label, value string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	total := 0.0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					total += m.GetCounter().GetValue()
				}
			}
		}
	}

	return total
}

// A recreated Subscription adopts the installed operator.
func TestRecreatedSubscription(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.createCatalog(c.global, "c", address)
	c.setPhase(c.createCSV("a.v1.0.0", ""), v1alpha1.CSVPhaseSucceeded)
	sub := c.createSubscription("a")
	plan := c.waitForPlan(sub, "a.v1.1.0")
	if sub.Status.InstalledCSV != "a.v1.0.0" || len(c.listPlans()) != 1 || plan.Spec.Generation != 1 {
		t.Errorf("installed: %q, plan %d of %d", sub.Status.InstalledCSV, plan.Spec.Generation, len(c.listPlans()))
	}
}

// Nothing is resolved while one version replaces another. A failed version blocks the next one, unless the
// OperatorGroup allows it to be replaced.
func TestFailedReplacement(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"},
		catalogRelease{pkg: "a", version: "1.2.0", replaces: "a.v1.1.0"})
	c.createCatalog(c.global, "c", address)
	old, young := c.createCSV("a.v1.0.0", ""), c.createCSV("a.v1.1.0", "a.v1.0.0")
	c.setPhase(old, v1alpha1.CSVPhaseReplacing)
	c.setPhase(young, v1alpha1.CSVPhaseInstalling)
	sub := c.createSubscription("a")
	before := sub.DeepCopy()
	sub.Status = v1alpha1.SubscriptionStatus{
		CurrentCSV: "a.v1.1.0", InstalledCSV: "a.v1.1.0", State: v1alpha1.SubscriptionStateAtLatest, LastUpdated: metav1.Now(),
	}
	c.Must(c.Status().Patch(t.Context(), sub, client.MergeFrom(before)))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Reason == v1alpha1.AllCatalogSourcesHealthy && s.CurrentCSV == "a.v1.1.0"
	})
	c.setPhase(young, v1alpha1.CSVPhaseFailed)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionResolutionFailed).Reason == v1alpha1.ConstraintsNotSatisfiable
	})
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	env.EditObject(c.Fixture, group, func(g *operatorsv1.OperatorGroup) {
		g.Spec.UpgradeStrategy = operatorsv1.UpgradeStrategyUnsafeFailForward
	})
	c.waitForPlan(sub, "a.v1.2.0")
}

func (c *fixture) createCSV(name, replaces string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Annotations: map[string]string{
			"operatorframework.io/properties": `{"properties":[{"type":"olm.package","value":{"packageName":"a","version":"` + name[3:] + `"}}]}`,
		}},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName: name, Replaces: replaces, InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyDeployment},
		},
	}

	c.Must(c.Create(c.T.Context(), csv))
	return csv
}

func (c *fixture) setPhase(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase) {
	c.T.Helper()
	c.PatchStatus(csv, func() { csv.Status.Phase = phase })
}
