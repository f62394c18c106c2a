package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// rollOutWithFault updates three nodes, one at a time. The fault occurs while the first node reboots, and again while
// the last one does. No node is updated twice, and no other node is updated meanwhile.
func rollOutWithFault(t *testing.T, fault func(c *cluster)) {
	t.Helper()
	c := start(t, node.Options{})
	names := []string{"fault-1", "fault-2", "fault-3"}
	for _, name := range names {
		c.node(name, "worker")
		c.pod("pod-"+name, name, nil)
	}

	c.pool("worker", "1")
	c.config("a", "worker", "one")
	one := c.updated("worker", "data:,one")
	c.player.hold(names...)
	c.config("a", "worker", "two")
	two := ""
	c.eventually("the configuration changes", func() bool {
		two = c.getPool("worker").Spec.Configuration.Name
		return two != one
	})

	for i, name := range names {
		c.told(two, names[:i+1]...)
		c.eventually(name+" is drained and reboots", func() bool {
			n := c.getNode(name)
			return n.Spec.Unschedulable && pools.State(n) == mcfgv1.NodeRebooting
		})
		if i != 1 {
			fault(c)
			c.told(two, names[:i+1]...)
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
		c.player.mu.Lock()
		taken := slices.Clone(c.player.taken[name])
		c.player.mu.Unlock()
		if diff := cmp.Diff([]string{one, two}, taken); diff != "" {
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
	rollOutWithFault(t, func(*cluster) { env.RestartServer(t) })
}

// TestEtcdWithoutSpaceDuringRollout has etcd refuse writes during a rollout. Deletions are still possible, and the
// configuration that the nodes need is deleted. The controller retries until there is space.
func TestEtcdWithoutSpaceDuringRollout(t *testing.T) {
	rollOutWithFault(t, func(c *cluster) {
		free := env.FillEtcd(t)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one-too-many"}}
		if err := c.Create(t.Context(), n); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("a write without space: got error %v", err)
		}

		target := c.getPool("worker").Spec.Configuration.Name
		before := c.refused.Load()
		c.Must(c.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: target}}))
		c.eventually("the controller retries", func() bool { return c.refused.Load() >= before+3 })
		free()
		c.eventually("the configuration is restored", func() bool { return c.holds(target, "data:,two") })
	})
}
