package console_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/console"
)

// clusterRules are the rights of a user on the version of the cluster.
func clusterRules(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{configv1.GroupVersion.Group}, Resources: []string{"clusterversions", "clusteroperators"}, Verbs: verbs},
		{APIGroups: []string{mcfgv1.GroupVersion.Group}, Resources: []string{"machineconfigpools", "machineconfigs"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs},
	}
}

const testImage = "registry.example.com/release@sha256:"

// newCondition returns a condition of a ClusterVersion.
func newCondition(name string, status metav1.ConditionStatus, reason, message string) configv1.ClusterOperatorStatusCondition {
	return configv1.ClusterOperatorStatusCondition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// createClusterVersion creates a ClusterVersion at 1.4.2 that can be updated to 1.4.3, and to 1.5.0 with a risk. The
// cluster reports Upgradeable=False.
func (f *fixture) createClusterVersion() *configv1.ClusterVersion {
	f.T.Helper()
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Spec = configv1.ClusterVersionSpec{ClusterID: "0f2c6f0e-1b2a-4c3d-8e4f-5a6b7c8d9e0f", Channel: "stable-1.4", Upstream: "https://me:secret@updates.example.com/graph?token=hidden"}
	f.CreateAll(cv)
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	cv.Status = configv1.ClusterVersionStatus{
		VersionHash: "x", Desired: configv1.Release{Version: "1.4.2", Image: testImage + strings.Repeat("2", 64), Channels: []string{"stable-1.4", "stable-1.5"}},
		History: []configv1.UpdateHistory{
			{State: configv1.CompletedUpdate, Version: "1.4.2", Image: testImage + strings.Repeat("2", 64), StartedTime: started, CompletionTime: &started, Verified: true},
		},
		AvailableUpdates: []configv1.Release{{Version: "1.4.3", Image: testImage + strings.Repeat("3", 64)}},
		ConditionalUpdates: []configv1.ConditionalUpdate{{
			Release: configv1.Release{Version: "1.5.0", Image: testImage + strings.Repeat("5", 64)},
			Risks: []configv1.ConditionalUpdateRisk{{
				Name: "SlowDisks", URL: "https://issues.example.com/1", Message: "Slow disks fail.",
				MatchingRules: []configv1.ClusterCondition{{Type: configv1.ClusterConditionAlways}},
			}},
			Conditions: []metav1.Condition{{Type: "Recommended", Status: "False", Reason: "SlowDisks", Message: "Slow disks fail.", LastTransitionTime: metav1.Now()}},
		}},
		Conditions: []configv1.ClusterOperatorStatusCondition{
			newCondition("Available", "True", "", ""), newCondition("Progressing", "False", "", "Cluster version is 1.4.2"), newCondition("RetrievedUpdates", "True", "", ""),
			newCondition("Upgradeable", "False", "AdminAckRequired", "Something must be agreed to."),
		},
	}
	f.Must(f.Status().Update(f.T.Context(), cv))
	return cv
}

// removeClusterObjects deletes the objects of the cluster's version, of which there is only one.
func (f *fixture) removeClusterObjects() {
	f.T.Helper()
	for _, object := range []client.Object{
		&configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "dns"}},
		&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}},
	} {
		f.Must(client.IgnoreNotFound(f.Delete(context.Background(), object)))
	}
}

func (f *fixture) readClusterVersion() *configv1.ClusterVersion {
	f.T.Helper()
	cv := &configv1.ClusterVersion{}
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: "version"}, cv))
	return cv
}

// status sends a request and returns the status and the text of the response.
func (b *browser) status(method, path string, body any) (int, string) {
	b.f.T.Helper()
	r := b.send(b.newRequest(method, path, body))
	return r.Code, r.Body.String()
}

// A cluster without a ClusterVersion is explained, and a user with permission can create one.
func TestClusterWithoutVersion(t *testing.T) {
	f := newFixture(t, nil)
	t.Cleanup(f.removeClusterObjects)
	reader := f.signIn(f.newUser("reader", "", clusterRules("get", "list", "watch")...))
	var details console.ClusterDetails
	reader.do(http.MethodGet, "/api/v1/cluster", nil, &details)
	if a := details.Settings.Absence; a == nil || !a.KindExists || !strings.Contains(a.Advice, "mainstay cluster init") {
		t.Errorf("got %+v, want the explanation for a cluster without a ClusterVersion", a)
	}

	body := map[string]any{"channel": "stable-1.4"}
	if code, text := reader.status(http.MethodPost, "/api/v1/cluster/init", body); code != http.StatusForbidden {
		t.Errorf("a user who may not create it: got %d %s, want 403", code, text)
	}
	admin := f.signIn(f.newUser("admin", "", clusterRules("*")...))
	if code, text := admin.status(http.MethodPost, "/api/v1/cluster/init", map[string]any{"upstream": "ftp://me:secret@a"}); code != http.StatusUnprocessableEntity || strings.Contains(text, "secret") {
		t.Errorf("an address that is not a URL: got %d %s, want 422 without the value", code, text)
	}
	admin.do(http.MethodPost, "/api/v1/cluster/init", body, nil)
	if got := f.readClusterVersion().Spec.Channel; got != "stable-1.4" {
		t.Errorf("got the channel %q, want that of the request", got)
	}
}

// An update needs the confirmations of its plan, and the rights of the user.
func TestClusterUpdate(t *testing.T) {
	f := newFixture(t, nil)
	t.Cleanup(f.removeClusterObjects)
	f.createClusterVersion()
	f.CreateAll(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
	reader := f.signIn(f.newUser("reader", "", clusterRules("get", "list", "watch")...))
	admin := f.signIn(f.newUser("admin", "", clusterRules("*")...))

	var details console.ClusterDetails
	reader.do(http.MethodGet, "/api/v1/cluster", nil, &details)
	s := details.Settings
	if s.Summary.State != clusterupdate.StateUpdatesAvailable || s.Blocked == nil || len(s.Minors) != 2 || len(s.Risks) != 1 || len(details.Problems) > 0 {
		t.Errorf("got %+v with problems %v, want two minor versions, a risk and the reason that blocks updates", s, details.Problems)
	}
	if s.Upstream != "https://updates.example.com/graph" {
		t.Errorf("got the update service %q, want it without credentials", s.Upstream)
	}

	var plan clusterupdate.UpdatePlan
	reader.do(http.MethodPost, "/api/v1/cluster/update/plan", map[string]any{"version": "1.4.3"}, &plan)
	if len(plan.Confirmations) > 0 || plan.Message != "Requested update to 1.4.3" {
		t.Errorf("got %+v, want a plan without confirmations", plan)
	}
	reader.do(http.MethodPost, "/api/v1/cluster/update/plan", map[string]any{"version": "1.5.0"}, &plan)
	var names []string
	for _, c := range plan.Confirmations {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{clusterupdate.ConfirmNotRecommended, clusterupdate.ConfirmUpgradeable}) || plan.Confirmations[0].Message != "Slow disks fail." {
		t.Errorf("got %+v, want the risk and Upgradeable=False to be confirmed", plan.Confirmations)
	}

	request := map[string]any{"version": "1.5.0", "confirmed": names, "generation": plan.Generation, "pause": []string{"worker"}}
	for _, test := range []struct {
		name string
		user *browser
		body map[string]any
		want int
		text string
	}{
		{"a user who may only read", reader, request, http.StatusForbidden, "forbidden"},
		{"without confirmations", admin, map[string]any{"version": "1.5.0"}, http.StatusUnprocessableEntity, "needs your confirmation"},
		{"a plan of an older spec", admin, map[string]any{"version": "1.4.3", "generation": plan.Generation + 1}, http.StatusConflict, "has changed since"},
		{"a version that is not available", admin, map[string]any{"version": "1.9.0"}, http.StatusUnprocessableEntity, "1.5.0, 1.4.3"},
		{"the nodes of the control plane", admin, map[string]any{"version": "1.4.3", "pause": []string{"master"}}, http.StatusUnprocessableEntity, "control plane"},
	} {
		if code, text := test.user.status(http.MethodPost, "/api/v1/cluster/update", test.body); code != test.want || !strings.Contains(text, test.text) {
			t.Errorf("%s: got %d %s, want %d with %q", test.name, code, text, test.want, test.text)
		}
		if requested := f.readClusterVersion().Spec.DesiredUpdate; requested != nil {
			t.Fatalf("%s: the update to %s was requested", test.name, requested.Version)
		}
	}

	admin.do(http.MethodPost, "/api/v1/cluster/update", request, nil)
	pool := &mcfgv1.MachineConfigPool{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: "worker"}, pool))
	if requested := f.readClusterVersion().Spec.DesiredUpdate; requested == nil || requested.Version != "1.5.0" || !pool.Spec.Paused {
		t.Errorf("got the update %+v and the pool paused %v, want both as requested", requested, pool.Spec.Paused)
	}

	admin.do(http.MethodPost, "/api/v1/cluster/update/cancel", nil, nil)
	if requested := f.readClusterVersion().Spec.DesiredUpdate; requested != nil {
		t.Errorf("got %+v after the update was cancelled", requested)
	}
}

// Settings are changed only by users with permission, and only if they have not changed since the user read them.
func TestClusterSettings(t *testing.T) {
	f := newFixture(t, nil)
	t.Cleanup(f.removeClusterObjects)
	generation := f.createClusterVersion().Generation
	f.CreateAll(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
	reader := f.signIn(f.newUser("reader", "", clusterRules("get", "list", "watch")...))
	admin := f.signIn(f.newUser("admin", "", clusterRules("*")...))
	nobody := f.signIn(f.newUser("nobody", ""))

	writes := []struct {
		path string
		body map[string]any
	}{
		{"/api/v1/cluster/channel", map[string]any{"channel": "stable-1.5", "generation": generation}},
		{"/api/v1/cluster/risks", map[string]any{"risks": []string{"SlowDisks"}}},
		{"/api/v1/cluster/pools/worker/pause", map[string]any{"paused": true}},
		{"/api/v1/cluster/update/cancel", nil},
	}
	for _, w := range writes {
		if code, text := nobody.status(http.MethodPost, w.path, w.body); code != http.StatusForbidden {
			t.Errorf("%s by a user without rights: got %d %s, want 403", w.path, code, text)
		}
		if code, text := reader.status(http.MethodPost, w.path, w.body); code != http.StatusForbidden && w.body != nil {
			t.Errorf("%s by a user who may only read: got %d %s, want 403", w.path, code, text)
		}
	}
	for _, path := range []string{"/api/v1/cluster", "/api/v1/cluster/operators", "/api/v1/cluster/graph"} {
		if code, text := nobody.status(http.MethodGet, path, nil); code != http.StatusForbidden || strings.Contains(text, "1.4.2") {
			t.Errorf("%s by a user without rights: got %d %s, want 403", path, code, text)
		}
	}

	if code, text := admin.status(http.MethodPost, "/api/v1/cluster/channel", map[string]any{"channel": "fast-9"}); code < 400 || !strings.Contains(text, "not one of the available channels") {
		t.Errorf("an unknown channel: got %d %s, want the available channels", code, text)
	}
	for _, w := range writes {
		admin.do(http.MethodPost, w.path, w.body, nil)
	}
	cv := f.readClusterVersion()
	if got := clusterupdate.AcceptedRisks(cv); cv.Spec.Channel != "stable-1.5" || !slices.Equal(got, []string{"SlowDisks"}) {
		t.Errorf("got the channel %s and the risks %v, want those of the requests", cv.Spec.Channel, got)
	}
	if code, text := admin.status(http.MethodPost, "/api/v1/cluster/channel", writes[0].body); code != http.StatusConflict {
		t.Errorf("a channel for older settings: got %d %s, want 409", code, text)
	}

	limited := f.signIn(f.newUser("limited", "", clusterRules("get", "list", "watch")[0]))
	var details console.ClusterDetails
	limited.do(http.MethodGet, "/api/v1/cluster", nil, &details)
	if len(details.Problems) != 2 || !details.Problems[1].Forbidden || details.Settings.Desired.Version != "1.4.2" {
		t.Errorf("a user who may not read nodes: got the problems %+v, want those of nodes in addition to the settings", details.Problems)
	}
}

func TestClusterOperators(t *testing.T) {
	f := newFixture(t, nil)
	t.Cleanup(f.removeClusterObjects)
	dns := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "dns"}}
	f.CreateAll(dns)
	dns.Status.Conditions = []configv1.ClusterOperatorStatusCondition{
		newCondition("Available", "True", "", ""), newCondition("Degraded", "True", "PodsFailing", "Two pods fail."),
	}
	dns.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: "1.4.2"}}
	f.Must(f.Status().Update(t.Context(), dns))

	reader := f.signIn(f.newUser("reader", "", clusterRules("get", "list", "watch")...))
	var list console.ClusterOperators
	reader.do(http.MethodGet, "/api/v1/cluster/operators", nil, &list)
	if len(list.Items) != 1 || list.Items[0].State != clusterupdate.OperatorDegraded || list.Items[0].Message != "Two pods fail." || list.Items[0].Version != "1.4.2" {
		t.Errorf("got %+v, want a degraded operator with its message", list.Items)
	}
	if code, text := reader.status(http.MethodGet, "/api/v1/cluster/operators/none-such", nil); code != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", code, text)
	}
}
