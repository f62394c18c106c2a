package pools

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// MaxUnavailable returns how many of the nodes of a pool may be unavailable at the same time. A percentage is rounded
// down; unset and 0 mean 1. The pool arbiter always has 1.
func MaxUnavailable(pool *mcfgv1.MachineConfigPool, nodes int) (int, error) {
	if pool.Name == mcfgv1.PoolArbiter || pool.Spec.MaxUnavailable == nil {
		return 1, nil
	}

	most, err := intstr.GetScaledValueFromIntOrPercent(pool.Spec.MaxUnavailable, nodes, false)
	if err != nil {
		return 0, fmt.Errorf("spec.maxUnavailable: %w", err)
	}
	return max(most, 1), nil
}

// Choice is which nodes of a pool are updated now.
type Choice struct {
	// Targets are the nodes to update, in this order.
	Targets []*corev1.Node
	// Deferred is the node that runs the controller, when others are updated before it.
	Deferred *corev1.Node
	// Outdated are nodes whose update has not begun.
	Outdated []*corev1.Node
}

// Choose returns which nodes of a pool are updated to its configuration now. self is the name of the node that runs the
// controller, which is updated last; empty when it runs elsewhere.
//
// Choose respects maxUnavailable, for which nodes count that are unavailable for any reason, and those that fail at this
// configuration. Nodes in a zone come first, by the name of the zone, then the oldest. A node that fails at another
// configuration may go on to this one at any time, because it counts as unavailable already.
func Choose(pool *mcfgv1.MachineConfigPool, nodes []*corev1.Node, self string) (*Choice, error) {
	target := pool.Spec.Configuration.Name
	choice := &Choice{}
	if target == "" || pool.Spec.Paused {
		return choice, nil
	}

	most, err := MaxUnavailable(pool, len(nodes))
	if err != nil {
		return nil, err
	}

	taken := 0
	var candidates []*corev1.Node
	for _, node := range nodes {
		isStuck := IsFailing(node) && Desired(node) != target && Desired(node) != Current(node)
		switch {
		case isStuck && isReporting(node):
			// It counts as unavailable since it was targeted before.
			choice.Targets = append(choice.Targets, node)
			taken++
		case IsUnavailable(node), IsFailing(node) && Desired(node) == target:
			taken++
		}

		if Desired(node) == target || isStuck {
			continue
		}
		if NotReady(node) == "" && State(node) == mcfgv1.NodeDone {
			candidates = append(candidates, node)
		}

		choice.Outdated = append(choice.Outdated, node)
	}

	slices.SortFunc(candidates, compareUpdateOrder)
	if i := slices.IndexFunc(candidates, func(n *corev1.Node) bool { return n.Name == self }); i >= 0 && len(candidates) > 1 {
		own := candidates[i]
		candidates = slices.Delete(candidates, i, i+1)
		if most > taken {
			choice.Deferred = own
		}
	}

	candidates = candidates[:min(len(candidates), max(most-taken, 0))]
	choice.Targets = append(choice.Targets, candidates...)
	choice.Outdated = slices.DeleteFunc(choice.Outdated, func(n *corev1.Node) bool { return slices.Contains(candidates, n) })

	return choice, nil
}

// isReporting reports whether the kubelet of a node reports it ready, cordoned or not.
func isReporting(node *corev1.Node) bool {
	if !node.Spec.Unschedulable {
		return NotReady(node) == ""
	}
	schedulable := *node
	schedulable.Spec.Unschedulable = false
	return NotReady(&schedulable) == ""
}

// compareUpdateOrder compares nodes by the order in which they are updated.
func compareUpdateOrder(a, b *corev1.Node) int {
	zoneA, zoneB := a.Labels[corev1.LabelTopologyZone], b.Labels[corev1.LabelTopologyZone]
	switch {
	case zoneA == "" && zoneB != "":
		return 1
	case zoneA != "" && zoneB == "":
		return -1
	}

	return cmp.Or(
		cmp.Compare(zoneA, zoneB),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}
