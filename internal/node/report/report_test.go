package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

var now = metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))

type edit func(*mcfgv1.MachineConfigPool)

// pool returns an updated pool of three nodes.
func pool(name string, edits ...edit) mcfgv1.MachineConfigPool {
	p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Configuration.Name, p.Status.Configuration.Name = "rendered-"+name+"-1", "rendered-"+name+"-1"
	p.Status.MachineCount, p.Status.UpdatedMachineCount, p.Status.ReadyMachineCount = 3, 3, 3
	withCondition(mcfgv1.PoolUpdated, "", 0)(&p)
	for _, e := range edits {
		e(&p)
	}

	return p
}

func withCondition(conditionType, message string, since time.Duration) edit {
	return func(p *mcfgv1.MachineConfigPool) {
		p.Status.Conditions = append(p.Status.Conditions, mcfgv1.MachineConfigPoolCondition{
			Type: conditionType, Status: metav1.ConditionTrue, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		})
	}
}

// updating makes a pool one whose nodes have been updating for some time.
func updating(since time.Duration) edit {
	return func(p *mcfgv1.MachineConfigPool) {
		p.Status.Conditions = nil
		withCondition(mcfgv1.PoolUpdating, "", since)(p)
		p.Status.Configuration.Name, p.Status.UpdatedMachineCount, p.Status.ReadyMachineCount = "old", 1, 1
	}
}

func paused(p *mcfgv1.MachineConfigPool) { p.Status.Conditions, p.Spec.Paused = nil, true }

func required(p *mcfgv1.MachineConfigPool) {
	p.Labels = map[string]string{mcfgv1.LabelRequiredForUpgrade: ""}
}

func TestReport(t *testing.T) {
	degraded := func(p *mcfgv1.MachineConfigPool) {
		withCondition(mcfgv1.PoolDegraded, "", 0)(p)
		withCondition(mcfgv1.PoolNodeDegraded, `Node a is reporting: "no"`, 0)(p)
	}
	cases := map[string]struct {
		pools    []mcfgv1.MachineConfigPool
		rendered bool
		// want is the version, and the conditions that are True. messages is a part of their texts.
		want     string
		messages string
	}{
		"done":                     {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker")}, true, "2 Available Upgradeable", "Cluster version is 2"},
		"workers behind":           {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker", updating(100*time.Hour))}, true, "2 Available", "One or more machine config pools are updating: worker"},
		"workers required":         {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker", updating(time.Minute), required)}, true, "1 Available Progressing", "Working towards 2"},
		"not rendered again":       {[]mcfgv1.MachineConfigPool{pool("master")}, false, "1 Available Progressing Upgradeable", "Working towards 2"},
		"no pools":                 {nil, true, "1 Available Progressing Upgradeable", "Cluster has deployed 1"},
		"updating":                 {[]mcfgv1.MachineConfigPool{pool("master", updating(29*time.Minute))}, true, "1 Available Progressing", "Working towards 2"},
		"updating for long":        {[]mcfgv1.MachineConfigPool{pool("master", updating(31*time.Minute))}, true, "1 Available Progressing Degraded", "Unable to apply 2: error during syncRequiredMachineConfigPools: pool master is not ready, retrying. Status: (total: 3, ready 1, updated: 1, unavailable: 0, degraded: 0)"},
		"paused":                   {[]mcfgv1.MachineConfigPool{pool("master", paused)}, true, "1 Available Progressing Degraded Upgradeable", "Unable to apply 2: required MachineConfigPool master is paused and cannot sync until it is unpaused"},
		"paused, nothing to do":    {[]mcfgv1.MachineConfigPool{pool("master", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })}, true, "2 Available Upgradeable", ""},
		"workers paused":           {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker", paused)}, true, "2 Available Upgradeable", ""},
		"degraded":                 {[]mcfgv1.MachineConfigPool{pool("master", degraded)}, true, "1 Available Progressing Degraded", `pool master is degraded: Node a is reporting: "no"`},
		"a worker pool's":          {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker", degraded)}, true, "2 Available", "One or more machine config pools are degraded: worker"},
		"status of another spec":   {[]mcfgv1.MachineConfigPool{pool("master", func(p *mcfgv1.MachineConfigPool) { p.Generation = 2 })}, true, "1 Available Progressing Upgradeable", ""},
		"one line for each pool":   {[]mcfgv1.MachineConfigPool{pool("worker", updating(0)), pool("master")}, true, "2 Available", `{"master":"all 3 nodes are at latest configuration rendered-master-1","worker":"1 (ready 1) out of 3 nodes are updating to latest configuration rendered-worker-1"}`},
		"the line of degradation":  {[]mcfgv1.MachineConfigPool{pool("master"), pool("worker", degraded)}, true, "2 Available", `"worker":"pool is degraded because of: Node a`},
		"two that are not allowed": {[]mcfgv1.MachineConfigPool{pool("master", paused), pool("worker", required, paused)}, true, "1 Available Progressing Degraded Upgradeable", "master is paused and cannot sync until it is unpaused; required MachineConfigPool worker"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := facts{version: "2", pools: c.pools, isRendered: func(*mcfgv1.MachineConfigPool) bool { return c.rendered }, now: now}
			status := configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operator", Version: "1"}}}
			f.fillStatus(&status)
			is, texts := []string{operatorstatus.VersionOf(&status, operatorstatus.VersionName)}, []string{string(status.Extension.Raw)}
			for _, condition := range status.Conditions {
				if condition.Status == metav1.ConditionTrue {
					is = append(is, condition.Type)
				}
				texts = append(texts, condition.Message)
			}

			messages := strings.Join(texts, "\n")
			if got := strings.Join(is, " "); got != c.want {
				t.Errorf("reported %q, want %q", got, c.want)
			}
			if !strings.Contains(messages, c.messages) {
				t.Errorf("got the messages\n%s\nwant %q", messages, c.messages)
			}

			// A second report of the same state changes nothing, not even the times.
			before := status.DeepCopy()
			f.now = metav1.NewTime(now.Add(time.Second))
			f.fillStatus(&status)
			if diff := cmp.Diff(before, &status); diff != "" {
				t.Errorf("a second report (-first +second):\n%s", diff)
			}
		})
	}
}

// Until the first version is reached, the operator is not available. After that, a failure is reported as a failed
// resync of this version.
func TestFirstAndLater(t *testing.T) {
	f := facts{version: "1", pools: []mcfgv1.MachineConfigPool{pool("master", updating(0))}, isRendered: func(*mcfgv1.MachineConfigPool) bool { return true }, now: now}
	var status configv1.ClusterOperatorStatus
	f.fillStatus(&status)
	if c := status.Conditions[0]; c.Type != configv1.OperatorAvailable || c.Status != metav1.ConditionFalse || c.Message != "Cluster not available for 1" {
		t.Errorf("before the first version: got condition %+v, want Available False", c)
	}

	status.Versions = []configv1.OperandVersion{{Name: "operator", Version: "1"}}
	f.pools = []mcfgv1.MachineConfigPool{pool("master", paused)}
	f.fillStatus(&status)
	if c := status.Conditions[2]; c.Type != configv1.OperatorDegraded || !strings.HasPrefix(c.Message, "Failed to resync 1 because: required MachineConfigPool master is paused") {
		t.Errorf("after the first version: got condition %+v, want Degraded with the failed resync", c)
	}
}
