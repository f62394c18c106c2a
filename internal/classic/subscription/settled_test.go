package subscription_test

import (
	"context"
	"errors"
	"fmt"
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
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// When all is as it should be, another look at it writes nothing.
func TestNothingIsWrittenWithoutNeed(t *testing.T) {
	c, admin := prepare(t)
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
	go func(connection *rest.Config) { done <- program(ctx, connection, c) }(admin)
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a", func(s *v1alpha1.Subscription) { s.Name = "settled" })
	c.execute(c.planned(sub, "a.v1.0.0"))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.State == v1alpha1.SubscriptionStateAtLatest && len(s.Conditions) == 1 &&
			condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Reason == v1alpha1.AllCatalogSourcesHealthy
	})
	catalog := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.global, Name: "c"}}
	c.eventually(func() error {
		if err := c.get(catalog); err != nil || catalog.Status.GRPCConnectionState == nil || catalog.Status.GRPCConnectionState.LastObservedState != "READY" {
			return fmt.Errorf("the catalog is not ready: %w", err)
		}
		return nil
	})

	before := writes.Load()
	// A pass ends before the next begins: the first two of these have ended when the third begins.
	for i := range 3 {
		looks := looksAt(t, "settled")
		edit(c, sub, func(s *v1alpha1.Subscription) { s.Labels = map[string]string{"look": strconv.Itoa(i)} })
		c.eventually(func() error {
			if looksAt(t, "settled") == looks {
				return errors.New("nobody has looked")
			}
			return nil
		})
	}

	if n := writes.Load() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// looksAt returns how often Subscriptions of a name were looked at.
func looksAt(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	total := 0.0
	for _, family := range families {
		if family.GetName() != "subscription_sync_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == name {
					total += metric.GetCounter().GetValue()
				}
			}
		}
	}

	return total
}

// A Subscription that is made anew goes on with the operator that is there.
func TestSubscriptionThatIsMadeAnew(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"}, release{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.catalog(c.global, "c", address)
	c.phase(c.csv("a.v1.0.0", ""), v1alpha1.CSVPhaseSucceeded)
	sub := c.subscribe("a")
	plan := c.planned(sub, "a.v1.1.0")
	if sub.Status.InstalledCSV != "a.v1.0.0" || len(c.plans()) != 1 || plan.Spec.Generation != 1 {
		t.Errorf("installed: %q, plan %d of %d", sub.Status.InstalledCSV, plan.Spec.Generation, len(c.plans()))
	}
}

// While one version takes the place of another, nothing is chosen. One that has failed is in the way of the next,
// unless the OperatorGroup lets it be replaced.
func TestReplacementThatFails(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"}, release{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"},
		release{pkg: "a", version: "1.2.0", replaces: "a.v1.1.0"})
	c.catalog(c.global, "c", address)
	old, young := c.csv("a.v1.0.0", ""), c.csv("a.v1.1.0", "a.v1.0.0")
	c.phase(old, v1alpha1.CSVPhaseReplacing)
	c.phase(young, v1alpha1.CSVPhaseInstalling)
	sub := c.subscribe("a")
	before := sub.DeepCopy()
	sub.Status = v1alpha1.SubscriptionStatus{
		CurrentCSV: "a.v1.1.0", InstalledCSV: "a.v1.1.0", State: v1alpha1.SubscriptionStateAtLatest, LastUpdated: metav1.Now(),
	}
	c.must(c.Status().Patch(t.Context(), sub, client.MergeFrom(before)))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy).Reason == v1alpha1.AllCatalogSourcesHealthy && s.CurrentCSV == "a.v1.1.0"
	})
	c.phase(young, v1alpha1.CSVPhaseFailed)
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionResolutionFailed).Reason == v1alpha1.ConstraintsNotSatisfiable
	})
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	edit(c, group, func(g *operatorsv1.OperatorGroup) {
		g.Spec.UpgradeStrategy = operatorsv1.UpgradeStrategyUnsafeFailForward
	})
	c.planned(sub, "a.v1.2.0")
}

func (c *cluster) csv(name, replaces string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Annotations: map[string]string{
			"operatorframework.io/properties": `{"properties":[{"type":"olm.package","value":{"packageName":"a","version":"` + name[3:] + `"}}]}`,
		}},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName: name, Replaces: replaces, InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyDeployment},
		},
	}

	c.must(c.Create(c.t.Context(), csv))
	return csv
}

func (c *cluster) phase(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase) {
	c.t.Helper()
	before := csv.DeepCopy()
	csv.Status.Phase = phase
	c.must(c.Status().Patch(c.t.Context(), csv, client.MergeFrom(before)))
}
