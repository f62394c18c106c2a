package node_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// unavailable watches the nodes. It returns a function that returns the maximum number of nodes that were unavailable at the same
// time.
func (c *fixture) unavailable() (most func() int) {
	c.T.Helper()
	var nodes corev1.NodeList
	watcher, err := client.NewWithWatch(restOf(c.T), client.Options{Scheme: c.Scheme()})
	c.Must(err)
	w, err := watcher.Watch(c.T.Context(), &nodes)
	c.Must(err)
	var mu sync.Mutex
	away, highest := map[string]bool{}, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				continue
			}

			mu.Lock()
			delete(away, n.Name)
			if pools.Current(n) != "" && pools.IsUnavailable(n) {
				away[n.Name] = true
			}

			highest = max(highest, len(away))
			mu.Unlock()
		}
	}()

	c.T.Cleanup(func() { w.Stop(); <-done })

	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return highest
	}
}

// Five nodes are updated, of which three may be unavailable, as in the example of the documentation.
func TestFiveNodes(t *testing.T) {
	c := start(t, node.Options{})
	for i := range 5 {
		c.node(fmt.Sprintf("node-%d", i+1), "worker", "topology.kubernetes.io/zone=a"+strconv.Itoa(i))
	}

	c.pool("worker", "3")
	c.config("a", "worker", "one")
	one := c.updated("worker", "data:,one")
	c.event("RenderedConfigGenerated", one)
	most := c.unavailable()
	c.daemons.hold("node-1", "node-2", "node-3", "node-4", "node-5")
	c.config("a", "worker", "two")
	target := ""
	c.eventually("the configuration moves", func() bool {
		target = c.getPool("worker").Spec.Configuration.Name
		return target != one
	})
	step := func(nodes ...string) {
		t.Helper()
		c.waitForDesired(target, nodes...)
		p := c.getPool("worker")
		if p.Status.Configuration.Name != one {
			t.Errorf("got status.configuration %s before all nodes are updated, want %s", p.Status.Configuration.Name, one)
		}
	}

	away := func(names ...string) {
		t.Helper()
		for _, name := range names {
			c.eventually(name+" is cordoned and drained", func() bool {
				n := c.getNode(name)
				return n.Spec.Unschedulable && pools.State(n) == mcfgv1.NodeRebooting
			})
		}
	}

	step("node-1", "node-2", "node-3")
	away("node-1", "node-2", "node-3")
	if n := c.getNode("node-4"); !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == mcfgv1.TaintUpdateInProgress }) {
		t.Errorf("got taints %v of the next node, node-4, want %s", n.Spec.Taints, mcfgv1.TaintUpdateInProgress)
	}

	c.eventually("the pool counts", func() bool {
		s := c.getPool("worker").Status
		return s.MachineCount == 5 && s.UnavailableMachineCount == 3 && s.UpdatedMachineCount == 0 && pools.Is(c.getPool("worker"), mcfgv1.PoolUpdating)
	})
	c.release("node-2")
	step("node-1", "node-2", "node-3", "node-4")
	away("node-4")
	c.release("node-1")
	step("node-1", "node-2", "node-3", "node-4", "node-5")
	away("node-5")
	for _, name := range []string{"node-3", "node-5", "node-4"} {
		c.release(name)
	}

	if got := c.updated("worker", "data:,two"); got != target {
		t.Errorf("got configuration %s of the pool, want %s", got, target)
	}

	c.event("SetDesiredConfig", "Set target for 3 nodes to MachineConfig: "+target)
	c.event("SetDesiredConfig", "Targeted node node-4 to MachineConfig: "+target)
	c.event("Completed", target)
	if got := most(); got > 3 {
		t.Errorf("got %d nodes unavailable at once, want at most 3", got)
	}

	for i := range 5 {
		n := c.getNode(fmt.Sprintf("node-%d", i+1))
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			t.Errorf("%s: got cordoned %v and taints %v after the update, want neither", n.Name, n.Spec.Unschedulable, n.Spec.Taints)
		}
	}
}

// A paused pool is still rendered, and updates its nodes when it is resumed. The nodes of a pool that cannot be rendered keep their
// configuration, and a node that two pools select is not updated.
func TestPools(t *testing.T) {
	c := start(t, node.Options{})
	c.node("w", "worker")
	c.node("g", "worker", "role/gpu=")
	c.node("x", "worker", "role/gpu=", "role/infra=")
	c.node("m", "master")
	for _, name := range []string{"worker", "gpu", "infra", "master"} {
		c.pool(name, "")
	}

	c.config("a", "worker", "one")
	c.config("b", "master", "one")
	c.config("c", "gpu", "special")
	one := c.updated("worker", "data:,one")
	c.updated("master", "data:,one")
	if gpu := c.updated("gpu", "data:,one", "data:,special"); !strings.HasPrefix(gpu, "rendered-gpu-") {
		t.Errorf("got configuration %s of the pool gpu, want one with the prefix rendered-gpu-", gpu)
	}

	c.event("MultipleCustomPools", "node x belongs to 2 custom pools, and is left alone: gpu, infra")
	if got := pools.Desired(c.getNode("x")); got != "" {
		t.Errorf("got desired configuration %s of the node of two pools, want none", got)
	}

	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
	c.config("a", "worker", "two")
	c.eventually("the configuration of the paused pool moves", func() bool {
		p := c.getPool("worker")
		return p.Spec.Configuration.Name != one && len(p.Status.Conditions) > 1 &&
			p.Status.Conditions[1].Message == "Pool is paused; will not update to MachineConfig "+p.Spec.Configuration.Name
	})
	c.updated("gpu", "data:,two")
	if got := pools.Desired(c.getNode("w")); got != one {
		t.Errorf("got desired configuration %s of a node of the paused pool, want %s", got, one)
	}

	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = false })
	two := c.updated("worker", "data:,two")

	c.raw("bad", "worker", `{"ignition":{"version":"2.2.0"}}`)
	c.eventually("the pool is degraded", func() bool {
		p := c.getPool("worker")
		return pools.Is(p, mcfgv1.PoolRenderDegraded) && pools.Is(p, mcfgv1.PoolDegraded)
	})
	if p := c.getPool("worker"); p.Spec.Configuration.Name != two || pools.Desired(c.getNode("w")) != two {
		t.Errorf("after an invalid MachineConfig: got configuration %s of the pool and %s of its node, want %s", p.Spec.Configuration.Name, pools.Desired(c.getNode("w")), two)
	}

	c.Must(c.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}))
	c.eventually("the pool recovers", func() bool { return !pools.Is(c.getPool("worker"), mcfgv1.PoolDegraded) })

	// A deleted rendered configuration is created again.
	c.Must(c.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: two}}))
	c.eventually("the rendered configuration exists again", func() bool { return c.holds(two, "data:,two") })
}

// A budget that forbids every eviction blocks the update of its node, and thereby the updates of the other nodes. ClusterOperator
// machine-config reports it, and the update continues when the budget allows evictions.
func TestForbiddingBudget(t *testing.T) {
	c := start(t, node.Options{})
	c.node("b1", "worker")
	c.node("b2", "worker")
	c.pool("worker", "")
	c.config("a", "worker", "one")
	c.updated("worker", "data:,one")
	labels := map[string]string{"app": "kept"}
	c.pod("kept", "b1", labels)
	c.pod("free", "b1", map[string]string{"app": "free"})
	c.pod("static", "b1", nil, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	c.pod("everywhere", "b1", nil, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "1", Controller: new(true)}}
	})
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: &intstr.IntOrString{}}
	c.Must(c.Create(t.Context(), budget))
	// No controller of budgets runs: the test sets the status.
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	c.Must(c.Status().Update(t.Context(), budget))
	c.config("a", "worker", "two")
	exists := func(name string) bool {
		return c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &corev1.Pod{}) == nil
	}
	c.eventually("the pod without a budget is evicted", func() bool { return !exists("free") })
	n := c.getNode("b1")
	if !n.Spec.Unschedulable || pools.State(n) != mcfgv1.NodeWorking || !exists("kept") || pools.Desired(c.getNode("b2")) == pools.Desired(n) {
		t.Errorf("while the budget forbids evictions: got %s, want a cordoned node whose update waits", c.describe())
	}

	// The node and its pool name the pod and the budget.
	const blocker = "pod default/kept cannot be evicted: The disruption budget none needs 1 healthy pods and has 1 currently"
	c.eventually("the node reports the blocker of its drain", func() bool {
		return strings.Contains(c.getNode("b1").Annotations[mcfgv1.AnnotationReason], blocker)
	})
	c.eventually("the pool reports the blocker of the drain", func() bool {
		p := &mcfgv1.MachineConfigPool{}
		c.Must(c.Get(t.Context(), client.ObjectKey{Name: "worker"}, p))
		return slices.ContainsFunc(p.Status.Conditions, func(condition mcfgv1.MachineConfigPoolCondition) bool {
			return condition.Type == mcfgv1.PoolUpdating && strings.Contains(condition.Message, "Node b1 is not drained: Draining since ") && strings.Contains(condition.Message, blocker)
		})
	})

	// A node that a user uncordons is cordoned again.
	n = c.getNode("b1")
	c.PatchObject(n, func() { n.Spec.Unschedulable = false })
	c.eventually("the node is cordoned again", func() bool { return c.getNode("b1").Spec.Unschedulable })
	forbidding := budget.DeepCopy()
	budget.Status.DisruptionsAllowed = 1
	c.Must(c.Status().Patch(t.Context(), budget, client.MergeFrom(forbidding)))
	c.updated("worker", "data:,two")
	if !exists("static") || !exists("everywhere") || exists("kept") {
		t.Error("want only the pod kept to be evicted, and the static pod and that of the DaemonSet to remain")
	}
}

// A node that does not return from its reboot blocks its pool, but no other pool, and is reported.
func TestNodeThatDoesNotReturn(t *testing.T) {
	c := start(t, node.Options{ReleaseVersion: "4.2.0"})
	for _, name := range []string{"n1", "n2", "n3"} {
		c.node(name, "worker", "topology.kubernetes.io/zone="+name)
	}

	c.node("m1", "master")
	c.pool("worker", "")
	c.pool("master", "")
	c.config("a", "worker", "one")
	c.config("b", "master", "one")
	c.updated("worker", "data:,one")
	c.updated("master", "data:,one")
	c.daemons.hold("n1")
	c.config("a", "worker", "two")
	c.config("b", "master", "two")
	c.eventually("n1 reboots", func() bool { return pools.State(c.getNode("n1")) == mcfgv1.NodeRebooting })
	c.ready("n1", corev1.ConditionUnknown)
	c.updated("master", "data:,two")
	c.eventually("the pool counts it", func() bool { return c.getPool("worker").Status.UnavailableMachineCount == 1 })
	if p := c.getPool("worker"); !pools.Is(p, mcfgv1.PoolUpdating) || pools.Desired(c.getNode("n2")) == p.Spec.Configuration.Name {
		t.Errorf("while n1 does not return: got %s, want an updating pool that updates no other node", c.describe())
	}

	c.eventually("the ClusterOperator has one line for each pool", func() bool {
		operator := &configv1.ClusterOperator{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "machine-config"}, operator); err != nil {
			return false
		}
		text := string(operator.Status.Extension.Raw)
		return strings.Contains(text, `"master":"all 1 nodes are at latest configuration rendered-master-`) &&
			strings.Contains(text, `"worker":"0 (ready 0) out of 3 nodes are updating to latest configuration rendered-worker-`) &&
			len(operator.Status.Versions) == 1 && operator.Status.Versions[0].Version == "4.2.0"
	})

	c.ready("n1", corev1.ConditionTrue)
	c.release("n1")
	c.updated("worker", "data:,two")
}

// A cluster of one node updates without a drain.
func TestOnlyNode(t *testing.T) {
	c := start(t, node.Options{Self: "s1"})
	c.node("s1", "master")
	c.pool("master", "")
	c.pod("stays", "s1", nil)
	c.config("a", "master", "one")
	c.updated("master", "data:,one")
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "stays"}, &corev1.Pod{}); err != nil {
		t.Errorf("got error %v for the pod of the only node, want it to remain", err)
	}

	// Printed columns and scripts read the counts, so that a count of 0 is not omitted.
	p := &unstructured.Unstructured{}
	p.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(mcfgv1.MachineConfigPoolKind))
	c.Must(c.Get(t.Context(), client.ObjectKey{Name: "master"}, p))
	for _, count := range []string{"machineCount", "updatedMachineCount", "readyMachineCount", "unavailableMachineCount", "degradedMachineCount"} {
		if _, ok, err := unstructured.NestedInt64(p.Object, "status", count); !ok || err != nil {
			t.Errorf("status.%s is missing (error %v)", count, err)
		}
	}
}

// A controller of the next release starts while no node has to change. It reports its version as soon as it has compared the pools,
// although no pool changes.
func TestNextReleaseReportsItsVersion(t *testing.T) {
	c := start(t, node.Options{ReleaseVersion: "1"})
	c.node("m1", "master")
	c.pool("master", "")
	c.config("a", "master", "one")
	c.updated("master", "data:,one")
	// The MachineConfigs settle after the first report, and the resync interval is too long to matter.
	c.control(node.Options{ReleaseVersion: "2", Settle: time.Second, ReportResyncInterval: 24 * time.Hour})
	c.eventually("version 2 is reported", func() bool {
		operator := &configv1.ClusterOperator{}
		err := c.Get(t.Context(), client.ObjectKey{Name: "machine-config"}, operator)
		c.Must(client.IgnoreNotFound(err))
		return len(operator.Status.Versions) == 1 && operator.Status.Versions[0].Version == "2"
	})
}

// A real daemon runs with the rights of its pod, on a folder instead of a host.
func TestRealDaemon(t *testing.T) {
	c := start(t, node.Options{})
	c.node("real-1", "worker")
	seen := c.sequence("real-1")
	root := c.daemon("real-1")
	c.node("w1", "worker")
	c.pool("worker", "")
	c.pod("moves", "real-1", nil)
	c.config("a", "worker", "one")
	one := c.updated("worker", "data:,one")
	if data, err := root.ReadFile("etc/a"); err != nil || string(data) != "one" {
		t.Errorf("got file %q (error %v), want one", data, err)
	}

	want := []string{"Done", "Working", "cordoned Working", "cordoned drained Working", "cordoned drained Rebooting", "cordoned drained Done", "Done"}
	c.eventually("the node has gone through all", func() bool { return len(seen()) >= len(want) })
	if diff := cmp.Diff(want, seen()); diff != "" {
		t.Errorf("states of the node (-want +got):\n%s", diff)
	}
	if n := c.getNode("real-1"); pools.Current(n) != one || n.Spec.Unschedulable {
		t.Errorf("got annotations %v and spec %+v of the node, want configuration %s and no cordon", n.Annotations, n.Spec, one)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "moves"}, &corev1.Pod{}); err == nil {
		t.Error("the pod still exists, want it evicted")
	}

	// The daemon rejects a change that is not supported until its author reverts it.
	c.raw("b", "worker", `{"ignition":{"version":"3.2.0"},"storage":{"disks":[{"device":"/dev/vda"}]}}`)
	c.eventually("the pool is degraded", func() bool {
		p := c.getPool("worker")
		return slices.ContainsFunc(p.Status.Conditions, func(x mcfgv1.MachineConfigPoolCondition) bool {
			return x.Type == mcfgv1.PoolNodeDegraded && strings.Contains(x.Message, "Node real-1 is reporting: \"the change cannot be made on a running node: Ignition storage.disks section contains changes\"")
		})
	})

	c.Must(c.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	c.config("a", "worker", "two")
	c.updated("worker", "data:,two")
	if data, err := root.ReadFile("etc/a"); err != nil || string(data) != "two" {
		t.Errorf("got file %q (error %v), want two", data, err)
	}
}

// The control plane is updated by two minor versions while the workers are paused. Then the workers are updated to the last one
// directly: each drains and reboots once.
func TestTwoMinorVersions(t *testing.T) {
	release := func(version string) node.Options {
		return node.Options{ReleaseVersion: version, Release: config.Base{OSImage: "registry.example.com/os:" + version}}
	}
	c := start(t, release("4.1.0"))
	c.node("m1", "master")
	c.node("w1", "worker")
	c.node("w2", "worker")
	for name, behind := range map[string]int{"m1": 0, "w1": 2, "w2": 2} {
		c.kubelet(name, behind)
	}

	c.pool("worker", "")
	c.pool("master", "")
	c.config("a", "worker", "one")
	c.config("b", "master", "one")
	c.updated("worker")
	c.updated("master")
	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
	first := c.getPool("worker").Status.Configuration.Name
	for i, version := range []string{"4.2.0", "4.3.0"} {
		c.control(release(version))
		c.operator("is at "+version, func(s *configv1.ClusterOperatorStatus) bool {
			return len(s.Versions) == 1 && s.Versions[0].Version == version && hasCondition(s, configv1.OperatorUpgradeable, metav1.ConditionTrue, "AsExpected")
		})
		if got := c.daemons.count("m1"); got != i+2 {
			t.Errorf("at %s: got %d configurations applied by the control plane, want %d", version, got, i+2)
		}
	}

	for _, name := range []string{"w1", "w2"} {
		if n := c.getNode(name); pools.Desired(n) != first || c.daemons.count(name) != 1 {
			t.Errorf("got desired configuration %s of %s in a paused pool, want %s", pools.Desired(n), name, first)
		}
	}

	// After a third version, the kubelets would be too old.
	c.kubelet("w2", 3)
	c.operator("blocks the next version", func(s *configv1.ClusterOperatorStatus) bool {
		return hasCondition(s, configv1.OperatorUpgradeable, metav1.ConditionFalse, "KubeletMinorVersionUnsupportedNextUpgrade")
	})
	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = false })
	last := c.updated("worker")
	for _, name := range []string{"w1", "w2"} {
		if got := c.daemons.count(name); got != 2 || pools.Current(c.getNode(name)) != last {
			t.Errorf("%s: got %d applied configurations and current configuration %s, want 2 and %s", name, got, pools.Current(c.getNode(name)), last)
		}
	}

	var rendered mcfgv1.MachineConfig
	c.Must(c.Get(t.Context(), client.ObjectKey{Name: last}, &rendered))
	if rendered.Spec.OSImageURL != "registry.example.com/os:4.3.0" {
		t.Errorf("got OS image %s of the workers, want version 4.3.0", rendered.Spec.OSImageURL)
	}
}

// nodesVariable is the environment variable with the number of nodes of TestManyNodes. The default is a tenth of the supported
// number, so that the test takes seconds.
const nodesVariable = "MAINSTAY_TEST_NODES"

// Many nodes with a pod each are updated. At most a tenth of them is unavailable at any time.
func TestManyNodes(t *testing.T) {
	count := 200
	if text := os.Getenv(nodesVariable); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", nodesVariable, err)
		}
	}

	c := start(t, node.Options{})
	c.pool("worker", "10%")
	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
	c.config("a", "worker", "one")
	makeNodes(c, count)
	begun := time.Now()
	c.edit("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = false })
	most := c.unavailable()
	c.updated("worker", "data:,one")
	t.Logf("%d nodes were drained and updated in %s, at most %d at once", count, time.Since(begun).Round(time.Second), most())
	if got, limit := most(), max(count/10, 1); got > limit {
		t.Errorf("got %d nodes unavailable at once, want at most %d", got, limit)
	}

	var left corev1.PodList
	c.Must(c.List(t.Context(), &left, client.InNamespace("default")))
	if len(left.Items) > 0 {
		t.Errorf("got %d remaining pods, want none", len(left.Items))
	}
}
