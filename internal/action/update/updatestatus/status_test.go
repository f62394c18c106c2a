package updatestatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// newCondition returns a condition that changed some minutes before testNow.
func newCondition(name string, status metav1.ConditionStatus, minutes int) configv1.ClusterOperatorStatusCondition {
	return configv1.ClusterOperatorStatusCondition{
		Type: name, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(testNow.Add(-time.Duration(minutes) * time.Minute)),
	}
}

func newOperator(name string, conditions ...configv1.ClusterOperatorStatusCondition) configv1.ClusterOperator {
	o := configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"include.release.openshift.io/self-managed": "true"}}}
	o.Status.Conditions = conditions
	return o
}

// newUpdatingClusterVersion returns the ClusterVersion of a cluster that is updating to
// 1.1.0.
func newUpdatingClusterVersion(conditions ...configv1.ClusterOperatorStatusCondition) *configv1.ClusterVersion {
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Status.History = []configv1.UpdateHistory{{State: configv1.PartialUpdate, Version: "1.1.0", StartedTime: metav1.NewTime(testNow.Add(-time.Hour))}}
	cv.Status.Conditions = append([]configv1.ClusterOperatorStatusCondition{newCondition("Progressing", "True", 60)}, conditions...)
	return cv
}

// An operator that is unhealthy for a short time is not an insight. If it remains unhealthy, it
// becomes a warning and then an error.
func TestOperatorInsights(t *testing.T) {
	for _, test := range []struct {
		condition configv1.ClusterOperatorStatusCondition
		want      string
	}{
		{newCondition("Available", "False", 4), ""}, {newCondition("Available", "False", 5), "Warning"}, {newCondition("Available", "False", 19), "Warning"}, {newCondition("Available", "False", 20), "Error"},
		{newCondition("Degraded", "True", 4), ""}, {newCondition("Degraded", "True", 5), "Warning"}, {newCondition("Degraded", "True", 39), "Warning"}, {newCondition("Degraded", "True", 40), "Error"},
		{newCondition("Available", "True", 90), ""}, {newCondition("Degraded", "False", 90), ""}, {newCondition("Degraded", "Unknown", 90), ""},
	} {
		status := Assess(Input{ClusterVersion: newUpdatingClusterVersion(), Operators: []configv1.ClusterOperator{newOperator("dns", test.condition)}, Now: testNow})
		var got []string
		for _, insight := range status.Health {
			got = append(got, string(insight.Level))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s=%s since %s: got %q, want %q", test.condition.Type, test.condition.Status, testNow.Sub(test.condition.LastTransitionTime.Time), got, test.want)
		}
	}
}

// The most severe insights come first, then the newest. Insights without a start time come
// last.
func TestHealthOrder(t *testing.T) {
	pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{}
	pool.Spec.Configuration.Name = "new"
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		mcfgv1.AnnotationCurrentConfig: "old", mcfgv1.AnnotationDesiredConfig: "new", mcfgv1.AnnotationState: string(mcfgv1.NodeDegraded),
	}}}
	status := Assess(Input{
		ClusterVersion: newUpdatingClusterVersion(newCondition("Failing", "Unknown", 10)), Now: testNow, Pools: []mcfgv1.MachineConfigPool{pool}, Nodes: []corev1.Node{node},
		Operators: []configv1.ClusterOperator{
			newOperator("a", newCondition("Degraded", "True", 50)), newOperator("b", newCondition("Available", "False", 30)), newOperator("c", newCondition("Degraded", "True", 8)),
		},
	})

	var got []string
	for _, insight := range status.Health {
		got = append(got, fmt.Sprintf("%s: %s", insight.Level, insight.Message))
	}

	want := []string{
		"Error: Cluster Operator b is unavailable (R)", "Error: Cluster Operator a is degraded (R)", "Error: Node n is degraded",
		"Warning: Cluster Operator c is degraded (R)", "Warning: Cluster Version version may be failing to proceed with the update (R)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

// A cluster is updating while its control plane is updating or nodes of a worker pool are
// outdated.
func TestIsUpdating(t *testing.T) {
	pool := func(name, config string) mcfgv1.MachineConfigPool {
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
		p.Spec.Configuration.Name = config
		return p
	}

	node := func(pool, config string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: pool, Labels: map[string]string{"pool": pool}, Annotations: map[string]string{
				mcfgv1.AnnotationCurrentConfig: config, mcfgv1.AnnotationDesiredConfig: config, mcfgv1.AnnotationState: string(mcfgv1.NodeDone),
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}

	done := newUpdatingClusterVersion()
	done.Status.Conditions = []configv1.ClusterOperatorStatusCondition{newCondition("Progressing", "False", 10)}
	versions := map[string]string{"c10": "1.0.0", "c11": "1.1.0"}
	for name, test := range map[string]struct {
		in   Input
		want string
	}{
		"no history":                      {Input{ClusterVersion: &configv1.ClusterVersion{}}, "no"},
		"the control plane":               {Input{ClusterVersion: newUpdatingClusterVersion()}, "yes"},
		"done":                            {Input{ClusterVersion: done}, "no"},
		"no condition":                    {Input{ClusterVersion: &configv1.ClusterVersion{Status: configv1.ClusterVersionStatus{History: done.Status.History}}}, "no"},
		"an empty pool":                   {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("worker", "c11")}}, "no"},
		"workers are done":                {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("worker", "c11")}, Nodes: []corev1.Node{node("worker", "c11")}, Versions: versions}, "no"},
		"workers wait":                    {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("worker", "c11")}, Nodes: []corev1.Node{node("worker", "c10")}, Versions: versions}, "yes worker Pending 0/1"},
		"their configuration is outdated": {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("worker", "c10")}, Nodes: []corev1.Node{node("worker", "c10")}, Versions: versions}, "yes worker Pending 0/1"},
		"their release is unknown":        {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("worker", "c10")}, Nodes: []corev1.Node{node("worker", "c10")}}, "no"},
		"masters wait, which the control plane does for": {Input{ClusterVersion: done, Pools: []mcfgv1.MachineConfigPool{pool("master", "c11")}, Nodes: []corev1.Node{node("master", "c10")}, Versions: versions}, "no"},
	} {
		test.in.Now = testNow
		status := Assess(test.in)
		got := []string{map[bool]string{true: "yes", false: "no"}[status.Updating]}
		for _, p := range status.WorkerPools {
			got = append(got, fmt.Sprintf("%s %s %d/%d", p.Name, p.Assessment, p.Completed, p.Total))
		}

		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
