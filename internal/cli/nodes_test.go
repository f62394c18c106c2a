package cli_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Configurations of the documented example.
const (
	masterConfig = "rendered-master-acd1358917e9f98cbdb599aea622d78b"
	workerConfig = "rendered-worker-1d871ac76e1951d32b2fe92369879826"
	newConfig    = "rendered-worker-5a5d4c5b3e6f4f2d9c8b7a6958473625"
)

// createPoolWithNodes creates a pool with its nodes, and sets the status that the controller would set.
func createPoolWithNodes(t testing.TB, c client.Client, pool *mcfgv1.MachineConfigPool, target string, nodes ...*corev1.Node) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	was := pool.Status.Configuration.Name
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role/" + pool.Name: ""}}
	pool.Spec.Configuration.Name = target
	must(c.Create(t.Context(), pool))
	t.Cleanup(func() { _ = c.Delete(context.Background(), pool) }) // an error shows in the next test if the pool still exists
	var members []*corev1.Node
	for _, n := range nodes {
		conditions := n.Status.Conditions
		if n.Labels == nil {
			n.Labels = map[string]string{"role/" + pool.Name: ""}
		}

		must(c.Create(t.Context(), n))
		t.Cleanup(func() { _ = c.Delete(context.Background(), n) })
		n.Status.Conditions = conditions
		if conditions == nil {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}

		must(c.Status().Update(t.Context(), n))
		members = append(members, n)
	}

	pool.Status.Configuration.Name = was
	pool.Status = pools.Status(pool, members, nil, longAgo)
	must(c.Status().Update(t.Context(), pool))
}

func newMachineNode(name, current, desired string, state mcfgv1.NodeState, edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		mcfgv1.AnnotationCurrentConfig: current, mcfgv1.AnnotationDesiredConfig: desired, mcfgv1.AnnotationState: string(state),
	}}}
	for _, e := range edit {
		e(n)
	}
	return n
}

func TestNodes(t *testing.T) {
	kubeconfig(t, env.Start(t))
	c := env.Client(t, corev1.AddToScheme, mcfgv1.AddToScheme)
	step := func(name, line string) {
		t.Helper()
		check(t, "nodes/"+name, command{line: words(line)})
	}
	step("none", "mainstay nodes status")
	done := func(name string) *corev1.Node {
		return newMachineNode(name, masterConfig, masterConfig, mcfgv1.NodeDone)
	}
	createPoolWithNodes(t, c, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "master"}}, masterConfig, done("master-0"), done("master-1"), done("master-2"))
	worker := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	worker.Status.Configuration.Name = workerConfig
	createPoolWithNodes(t, c, worker, newConfig,
		newMachineNode("worker-0", newConfig, newConfig, mcfgv1.NodeDone),
		newMachineNode("worker-1", workerConfig, newConfig, mcfgv1.NodeWorking, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Annotations[mcfgv1.AnnotationDesiredDrain] = mcfgv1.DrainPrefix + newConfig
			n.Annotations[mcfgv1.AnnotationReason] = "Draining since 2024-02-27T10:40:00Z: pod kitchen/kettle cannot be evicted: The disruption budget kettle needs 1 healthy pods and has 1 currently"
		}))

	// The rows of the documented example.
	step("status", "mainstay nodes status")
	step("all", "mainstay nodes status worker --all")
	step("name", "mainstay nodes status -o name")
	step("unknown", "mainstay nodes status infra")
	step("pause", "mainstay nodes pause worker")
	step("pause-again", "mainstay nodes pause worker")
	step("pause-name", "mainstay nodes pause worker -o name")
	step("resume", "mainstay nodes resume worker")
	step("resume-again", "mainstay nodes resume worker")
	step("pause-unknown", "mainstay nodes pause infra")
	step("complete", "mainstay __complete nodes pause w")

	infra := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "infra"}}
	infra.Spec.Paused = true
	createPoolWithNodes(t, c, infra, newConfig,
		newMachineNode("a", workerConfig, workerConfig, mcfgv1.NodeDone),
		newMachineNode("b", workerConfig, newConfig, mcfgv1.NodeDegraded, func(n *corev1.Node) {
			n.Annotations[mcfgv1.AnnotationReason] = "failed to drain node: b after 1 hour. Draining since 2024-02-27T10:40:00Z: pod kitchen/kettle cannot be evicted: The disruption budget kettle needs 1 healthy pods and has 1 currently"
		}),
		newMachineNode("c", workerConfig, newConfig, mcfgv1.NodeRebooting, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}),
		newMachineNode("d", newConfig, newConfig, mcfgv1.NodeDone, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		newMachineNode("e", "", "", ""))

	createPoolWithNodes(t, c, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, "",
		newMachineNode("both", "", "", "", func(n *corev1.Node) { n.Labels = map[string]string{"role/gpu": "", "role/infra": ""} }))
	step("troubles", "mainstay nodes status")
	step("troubles-one", "mainstay nodes status infra -o yaml")
}
