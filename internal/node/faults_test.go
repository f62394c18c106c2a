package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// rollOutWithFault updates three nodes, one at a time. The fault occurs while the first node reboots, and again while
// the last one does. No node is updated twice, and no other node is updated meanwhile.
func rollOutWithFault(t *testing.T, c *fixture, fault func()) {
	t.Helper()
	names := []string{"fault-1", "fault-2", "fault-3"}
	for _, name := range names {
		c.node(name, "worker")
		c.pod("pod-"+name, name, nil)
	}

	c.pool("worker", "1")
	c.config("a", "worker", "one")
	one := c.updated("worker", "data:,one")
	c.daemons.hold(names...)
	c.config("a", "worker", "two")
	two := ""
	c.eventually("the configuration changes", func() bool {
		two = c.getPool("worker").Spec.Configuration.Name
		return two != one
	})

	for i, name := range names {
		c.waitForDesired(two, names[:i+1]...)
		c.eventually(name+" is drained and reboots", func() bool {
			n := c.getNode(name)
			return n.Spec.Unschedulable && pools.State(n) == mcfgv1.NodeRebooting
		})
		if i != 1 {
			fault()
			c.waitForDesired(two, names[:i+1]...)
		}
		c.release(name)
	}

	if got := c.updated("worker", "data:,two"); got != two {
		t.Errorf("the pool has configuration %s, want %s", got, two)
	}

	for _, name := range names {
		c.eventually(name+" is schedulable", func() bool {
			n := c.getNode(name)
			return !n.Spec.Unschedulable && len(n.Spec.Taints) == 0
		})
		c.daemons.mu.Lock()
		applied := slices.Clone(c.daemons.configs[name])
		c.daemons.mu.Unlock()
		if diff := cmp.Diff([]string{one, two}, applied); diff != "" {
			t.Errorf("configurations of %s (-want +got):\n%s", name, diff)
		}
	}

	var pods corev1.PodList
	c.Must(c.List(t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)))
	if len(pods.Items) > 0 {
		t.Errorf("got %d pods on nodes that were drained, want none", len(pods.Items))
	}
}

// TestServerRestartsDuringRollout kills the API server during a rollout. The controller keeps running.
func TestServerRestartsDuringRollout(t *testing.T) {
	rollOutWithFault(t, start(t, node.Options{}), func() { env.RestartServer(t) })
}

// TestEtcdWithoutSpaceDuringRollout has etcd refuse writes during a rollout. Deletions are still possible, and the
// configuration that the nodes need is deleted. The controller retries until there is space.
func TestEtcdWithoutSpaceDuringRollout(t *testing.T) {
	c := start(t, node.Options{})
	rollOutWithFault(t, c, func() {
		free := env.FillEtcd(t)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one-too-many"}}
		if err := c.Create(t.Context(), n); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("a write without space: got error %v, want that the database space is exceeded", err)
		}

		target := c.getPool("worker").Spec.Configuration.Name
		before := c.refused.Load()
		c.Must(c.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: target}}))
		c.eventually("the controller retries", func() bool { return c.refused.Load() >= before+3 })
		free()
		c.eventually("the configuration is restored", func() bool { return c.holds(target, "data:,two") })
	})
}

// TestTwoControllersDuringRollout disconnects the leader of two controllers during a rollout. The other one takes over,
// and the former leader writes nothing more.
func TestTwoControllersDuringRollout(t *testing.T) {
	c := newFixture(t)
	c.simulateDaemons()
	startController := func() *env.Replica {
		t.Helper()
		return c.StartReplica(env.Manager{
			Connect: func(connection *rest.Config) { *connection = *c.connectAs("machine-config-controller") },
			Options: ctrl.Options{LeaderElectionNamespace: systemNamespace},
			Setup:   func(mgr ctrl.Manager) error { return setUpNode(mgr, node.Options{}) },
		}, "machine-config-controller")
	}

	leader := startController()
	leader.WaitForLeadership()
	follower := startController()
	rollOutWithFault(t, c, func() {
		follower.CheckPassive()
		leader.CutOff()
		follower.WaitForLeadership()
		leader, follower = follower, startController()
	})
}

// TestClockJumpsDuringRollout sets the clock forward and back during a rollout. A deadline that seems to have passed stops
// nothing, and a configuration is also rendered when its changes seem to be in the future.
func TestClockJumpsDuringRollout(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	clock := &env.JumpingClock{}
	clock.JumpTo(-years)
	c := start(t, node.Options{Clock: clock, ReportResyncInterval: 50 * time.Millisecond})
	rollOutWithFault(t, c, func() {
		c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Labels = map[string]string{mcfgv1.LabelRequiredForUpgrade: ""} })
		for _, at := range []struct {
			offset time.Duration
			isLate metav1.ConditionStatus
			reason string
		}{
			{years, metav1.ConditionTrue, "RequiredPoolsFailed"},
			{-years, metav1.ConditionFalse, configv1.ReasonAsExpected},
			{years, metav1.ConditionTrue, "RequiredPoolsFailed"},
		} {
			clock.JumpTo(at.offset)
			c.operator("reports whether the update is late", func(s *configv1.ClusterOperatorStatus) bool {
				return hasCondition(s, configv1.OperatorDegraded, at.isLate, at.reason)
			})
		}
	})
}
