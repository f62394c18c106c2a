package metrics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// fakeReader returns the objects of a cluster.
type fakeReader struct {
	client.Reader
	version   *configv1.ClusterVersion
	operators []configv1.ClusterOperator
	installed *corev1.ConfigMap
}

func (o fakeReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *configv1.ClusterVersion:
		if o.version != nil {
			o.version.DeepCopyInto(into)
			return nil
		}
	case *corev1.ConfigMap:
		if o.installed != nil && o.installed.Name == key.Name {
			o.installed.DeepCopyInto(into)
			return nil
		}
	}

	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

func (o fakeReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*configv1.ClusterOperatorList).Items = o.operators
	return nil
}

func newTime(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

func newCondition(kind string, status metav1.ConditionStatus, reason string) configv1.ClusterOperatorStatusCondition {
	return configv1.ClusterOperatorStatusCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: newTime(500)}
}

// newFailingUpdate returns a cluster in the middle of a failing update.
func newFailingUpdate() fakeReader {
	done, before := newTime(300), newTime(200)
	return fakeReader{
		version: &configv1.ClusterVersion{
			ObjectMeta: metav1.ObjectMeta{Name: "version", CreationTimestamp: newTime(100)},
			Spec:       configv1.ClusterVersionSpec{Channel: "stable", DesiredUpdate: &configv1.Update{Version: "1.3.0", Image: "c"}},
			Status: configv1.ClusterVersionStatus{
				Desired: configv1.Release{Version: "1.2.0", Image: "b"},
				History: []configv1.UpdateHistory{
					{State: configv1.PartialUpdate, StartedTime: newTime(400), Version: "1.2.0", Image: "b"},
					{State: configv1.CompletedUpdate, StartedTime: newTime(250), CompletionTime: &done, Version: "1.1.0", Image: "a"},
					{State: configv1.CompletedUpdate, StartedTime: newTime(150), CompletionTime: &before, Version: "1.0.0", Image: "z"},
				},
				AvailableUpdates: []configv1.Release{{}, {}},
				ConditionalUpdates: []configv1.ConditionalUpdate{{
					Release:    configv1.Release{Version: "1.4.0"},
					Conditions: []metav1.Condition{{Type: "Recommended", Status: "Unknown", Reason: "EvaluationFailed", LastTransitionTime: newTime(450)}},
				}},
				ConditionalUpdateRisks: []configv1.ConditionalUpdateRisk{
					{Name: "Slow", Conditions: []metav1.Condition{{Type: "Applies", Status: "True", Reason: "Match"}}},
					{Name: "Loud", Conditions: []metav1.Condition{{Type: "Applies", Status: "Unknown", Reason: "EvaluationFailed"}}},
					{Name: "Odd", Conditions: []metav1.Condition{{Type: "Applies", Status: "False", Reason: "NotMatch"}}},
				},
				Capabilities: configv1.ClusterVersionCapabilitiesStatus{
					EnabledCapabilities: []configv1.ClusterVersionCapability{"Console"}, KnownCapabilities: []configv1.ClusterVersionCapability{"Console", "Insights"},
				},
				Conditions: []configv1.ClusterOperatorStatusCondition{
					newCondition("Available", "True", ""), newCondition("Failing", "True", "MultipleErrors"), newCondition("Upgradeable", "Unknown", "EvaluationFailed"),
				},
			},
		},
		operators: []configv1.ClusterOperator{
			{ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Status: configv1.ClusterOperatorStatus{
				Versions:   []configv1.OperandVersion{{Name: "operator", Version: "1.1.0"}},
				Conditions: []configv1.ClusterOperatorStatusCondition{newCondition("Available", "True", "AsExpected"), newCondition("Degraded", "False", "AsExpected")},
			}},
			{ObjectMeta: metav1.ObjectMeta{Name: "silent"}},
		},
		installed: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "openshift-install"}, Data: map[string]string{"version": "v1", "invoker": "ci"}},
	}
}

func collectText(t *testing.T, o fakeReader, change func(*collector)) string {
	t.Helper()
	c := &collector{
		Options: Options{
			Worker: func() worker.Status {
				return worker.Status{Actual: configv1.Release{Version: "1.2.0"}, Done: 3, Total: 10, Errors: 2}
			},
			Created:   func(string) metav1.Time { return newTime(50) },
			Retrieved: func() time.Time { return time.Unix(460, 0) },
		},
		reader: o, direct: o, transitions: newTransitionCounter(),
	}
	if change != nil {
		change(c)
	}

	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("got status %d: %s, want 200", answer.Code, answer.Body)
	}

	return answer.Body.String()
}

func TestMetrics(t *testing.T) {
	golden.Check(t, "updating.prom", []byte(collectText(t, newFailingUpdate(), func(c *collector) {
		before := newFailingUpdate().operators[0]
		after := before.DeepCopy()
		after.Status.Conditions[0].Status = metav1.ConditionFalse
		c.transitions.countTransitions(&before, after)
		c.transitions.countTransitions(after, &before)
		c.transitions.countTransitions(&before, &before)
		gone := newFailingUpdate().operators[0]
		gone.Name = "gone"
		changed := gone.DeepCopy()
		changed.Status.Conditions[0].Status = metav1.ConditionFalse
		c.transitions.countTransitions(&gone, changed)
		c.transitions.removeOperator(toolscache.DeletedFinalStateUnknown{Obj: changed})
	})))
}

func TestNoClusterVersion(t *testing.T) {
	text := collectText(t, fakeReader{}, nil)
	for _, want := range []string{
		`cluster_operator_up{name="version",reason="ClusterVersionNotFound",version=""} 0`, `cluster_installer{invoker="user",type="other",version=""} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got the metrics\n%s\nwant %s", text, want)
		}
	}
}

func TestDuringInstallation(t *testing.T) {
	o := newFailingUpdate()
	o.version.Spec.DesiredUpdate = nil
	o.version.Status.History = o.version.Status.History[:1]
	o.version.Status.AvailableUpdates, o.version.Status.Conditions = nil, nil
	text := collectText(t, o, nil)
	for _, want := range []string{
		`cluster_version{from_version="",image="b",type="cluster",version="1.2.0"} 100`, `cluster_version{from_version="",image="b",type="updating",version="1.2.0"} 400`,
		`cluster_operator_up{name="version",reason="NoAvailableCondition",version="1.2.0"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got the metrics\n%s\nwant %s", text, want)
		}
	}

	for _, unwanted := range []string{`type="completed"`, `type="failure"`, `type="desired"`, "cluster_version_available_updates{"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("got the metrics\n%s\nwant them without %s", text, unwanted)
		}
	}
}

// Each alert fires at its threshold and not before.
func TestAlerts(t *testing.T) {
	promtool := checkout.FindProgram(t, "promtool")
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(filepath.Join(root, "config", "cluster-version-operator", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	var rule struct {
		Spec struct {
			Groups []struct {
				Name  string           `json:"name"`
				Rules []map[string]any `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &rule); err != nil {
		t.Fatal(err)
	}

	for _, group := range rule.Spec.Groups {
		for _, rule := range group.Rules {
			if rule["annotations"] == nil {
				t.Errorf("alert %v has no annotations, want some", rule["alert"])
			}
			delete(rule, "annotations") // The tests check when alerts fire, not their texts.
		}
	}

	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}

	tests, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range strings.Split(string(data), "- alert: ")[1:] {
		name, _, _ = strings.Cut(name, "\n")
		if strings.Count(string(tests), "alertname: "+name+"\n") < 2 {
			t.Errorf("alert %s has fewer than 2 tests, want one in which it fires and one in which it does not", name)
		}
	}

	dir := t.TempDir()
	for name, data := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
