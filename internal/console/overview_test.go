package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/overview"
)

// The overview lists objects that need attention, and shows users only objects that they may read.
func TestOverview(t *testing.T) {
	f := newFixture(t, nil)
	t.Cleanup(f.removeClusterObjects)
	f.createClusterVersion()
	name := f.createSources()
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "argocd"},
		Spec:       v1alpha1.SubscriptionSpec{Package: "argocd", CatalogSource: name, CatalogSourceNamespace: name},
	}
	f.CreateAll(sub)
	sub.Status.LastUpdated = metav1.Now()
	sub.Status.Conditions = []v1alpha1.SubscriptionCondition{{Type: v1alpha1.SubscriptionDeprecated, Status: corev1.ConditionTrue, Message: "Use another package."}}
	f.Must(f.Status().Update(t.Context(), sub))

	admin := f.signIn(f.newUser("admin", "", append(sourceRules("get", "list", "watch"), clusterRules("get", "list", "watch")...)...))
	var got overview.Overview
	admin.do(http.MethodGet, "/api/v1/overview?namespace="+name, nil, &got)
	has := func(notices []overview.Notice, topic, kind, text string) {
		t.Helper()
		if !slices.ContainsFunc(notices, func(n overview.Notice) bool {
			return n.Topic == topic && n.Kind == kind && strings.Contains(n.Text, text)
		}) {
			t.Errorf("got %+v, want a notice about %s of a %s with %q", notices, topic, kind, text)
		}
	}
	has(got.Attention, "Catalog", "CatalogSource", "does not answer")
	has(got.Attention, "Catalog", "ClusterCatalog", "not served")
	has(got.Attention, "Deprecated", "Subscription", "Use another package.")
	has(got.Attention, "Blocked", "ClusterVersion", "Something must be agreed to.")
	has(got.Updates, "Update", "ClusterVersion", "1.4.3")
	if len(got.Problems) > 0 || len(got.Parts) != 4 || got.Parts[1].Health != overview.HealthAttention {
		t.Errorf("got the parts %+v and the problems %+v, want four parts without problems", got.Parts, got.Problems)
	}

	nobody := f.signIn(f.newUser("nobody", ""))
	got = overview.Overview{}
	nobody.do(http.MethodGet, "/api/v1/overview", nil, &got)
	if len(got.Attention)+len(got.Updates) > 0 || len(got.Problems) < 6 {
		t.Errorf("a user without rights: got %+v, want only problems", got)
	}
	for _, part := range got.Parts {
		if part.Health != overview.HealthUnknown {
			t.Errorf("a user without rights: got %+v, want it to be unknown", part)
		}
	}
}

// The list and the overview agree on the objects that need attention.
func TestUrgencyOfInstalled(t *testing.T) {
	f := newFixture(t, nil)
	for name, phase := range map[string]v1alpha1.ClusterServiceVersionPhase{"a": v1alpha1.CSVPhaseSucceeded, "b": v1alpha1.CSVPhaseInstallReady, "c": v1alpha1.CSVPhaseFailed} {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
		csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
		f.CreateAll(csv)
		csv.Status.Phase = phase
		f.Must(f.Status().Update(t.Context(), csv))
	}

	b := f.signIn(f.newUser("tenant", f.namespace, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	var list inventory.Inventory
	b.do(http.MethodGet, "/api/v1/installed?namespace="+f.namespace, nil, &list)
	got := map[string]inventory.Urgency{}
	for _, item := range list.Items {
		got[item.Name] = item.Urgency
	}
	if diff := cmp.Diff(map[string]inventory.Urgency{"a": inventory.UrgencyNone, "b": inventory.UrgencyBusy, "c": inventory.UrgencyPerson}, got); diff != "" {
		t.Errorf("urgencies (-want +got):\n%s", diff)
	}

	var o overview.Overview
	b.do(http.MethodGet, "/api/v1/overview?namespace="+f.namespace, nil, &o)
	if len(o.Attention) != 1 || o.Attention[0].Name != "c" {
		t.Errorf("got %+v, want that c needs attention", o.Attention)
	}
}
