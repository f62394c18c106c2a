package pools

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

func TestAssess(t *testing.T) {
	drains := func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations[mcfgv1.AnnotationDesiredDrain] = mcfgv1.DrainPrefix + target
	}
	blocked := func(n *corev1.Node) {
		n.Annotations[mcfgv1.AnnotationReason] = "Draining since noon: pod a/b cannot be evicted"
	}
	notReady := func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = corev1.ConditionUnknown, "Kubelet stopped posting node status."
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	failed := func(n *corev1.Node) {
		at(old, target, mcfgv1.NodeDegraded)(n)
		n.Annotations[mcfgv1.AnnotationReason] = "the disk is full"
	}
	for _, c := range []struct {
		node   *corev1.Node
		paused bool
		want   string
		// behind is the state of the node if the pool is about to get another configuration.
		behind string
	}{
		{node: node("a"), want: "Outdated Pending", behind: "Outdated Pending"},
		{node: node("a"), paused: true, want: "Excluded Paused", behind: "Excluded Paused"},
		{node: node("a", updated), want: "Completed Updated", behind: "Outdated Pending"},
		{node: node("a", updated), paused: true, want: "Completed Updated", behind: "Excluded Paused"},
		{node: node("a", updated, cordoned), want: "Unavailable Updated it is cordoned", behind: "Unavailable Pending it is cordoned"},
		{node: node("a", notReady), want: "Unavailable Pending NotReady: Kubelet stopped posting node status.", behind: "Unavailable Pending NotReady: Kubelet stopped posting node status."},
		{node: node("a", updating), want: "Progressing Updating", behind: "Progressing Updating"},
		{node: node("a", updating, drains), want: "Progressing Draining", behind: "Progressing Draining"},
		{
			node: node("a", updating, drains, blocked), want: "Progressing Draining Draining since noon: pod a/b cannot be evicted",
			behind: "Progressing Draining Draining since noon: pod a/b cannot be evicted",
		},
		{node: node("a", updating, blocked), want: "Progressing Updating", behind: "Progressing Updating"},
		{node: node("a", updating, notReady), want: "Unavailable Updating NotReady: Kubelet stopped posting node status.", behind: "Unavailable Updating NotReady: Kubelet stopped posting node status."},
		{node: node("a", at(old, target, mcfgv1.NodeRebooting), notReady), want: "Progressing Rebooting", behind: "Progressing Rebooting"},
		{node: node("a", failed), want: "Degraded Updating the disk is full", behind: "Degraded Updating the disk is full"},
		{node: node("a", at("", "", "")), want: "Unavailable Pending its machine-config-daemon has not reported", behind: "Unavailable Pending its machine-config-daemon has not reported"},
	} {
		pool := &mcfgv1.MachineConfigPool{}
		pool.Spec.Configuration.Name, pool.Spec.Paused = target, c.paused
		show := func(s NodeState) string {
			return strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Assessment, s.Phase, s.Message))
		}
		got := Assess(c.node, pool)
		if show(got) != c.want || got.Name != "a" || got.Config != Current(c.node) {
			t.Errorf("%v: got %+v, want %s", c.node.Annotations, got, c.want)
		}
		if behind := show(got.Behind(c.paused)); behind != c.behind {
			t.Errorf("%v, behind: got %s, want %s", c.node.Annotations, behind, c.behind)
		}
	}
}

// Nodes that need attention come first, and among these the nodes whose update has the most steps left.
func TestCompareNodeStates(t *testing.T) {
	want := []string{
		"b Degraded Pending", "a Degraded Updating", "a Unavailable Updated", "a Progressing Draining", "c Progressing Draining", "a Progressing Rebooting",
		"a Excluded Paused", "a Outdated Pending", "a Completed Updated",
	}
	var states []NodeState
	for _, text := range want {
		words := strings.Fields(text)
		states = append(states, NodeState{Name: words[0], Assessment: Assessment(words[1]), Phase: Phase(words[2])})
	}

	slices.Reverse(states)
	slices.SortFunc(states, CompareNodeStates)
	var got []string
	for _, s := range states {
		got = append(got, fmt.Sprintf("%s %s %s", s.Name, s.Assessment, s.Phase))
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
