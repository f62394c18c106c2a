package pools

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxNamedNodes is how many degraded nodes the message of a pool explains; the others are counted.
const maxNamedNodes = 20

// Status returns the status of a pool: the counts of its nodes and its conditions. The transition times of conditions whose status
// does not change are kept. renderError is the error of rendering the configuration of the pool; it may be nil.
func Status(pool *mcfgv1.MachineConfigPool, nodes []*corev1.Node, renderError error, now metav1.Time) mcfgv1.MachineConfigPoolStatus {
	target := pool.Spec.Configuration.Name
	status := *pool.Status.DeepCopy()
	status.ObservedGeneration = pool.Generation
	status.MachineCount, status.UpdatedMachineCount, status.ReadyMachineCount = int32(len(nodes)), 0, 0 //nolint:gosec // a cluster has fewer nodes
	status.UnavailableMachineCount, status.DegradedMachineCount = 0, 0
	var failing []*corev1.Node
	for _, node := range nodes {
		if target != "" && isAt(node, target) {
			status.UpdatedMachineCount++
			if NotReady(node) == "" {
				status.ReadyMachineCount++
			}
		}
		if IsUnavailable(node) {
			status.UnavailableMachineCount++
		}
		if IsFailing(node) {
			status.DegradedMachineCount++
			failing = append(failing, node)
		}
	}

	set := func(conditionType string, is bool, reason, message string) {
		c := mcfgv1.MachineConfigPoolCondition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		setCondition(&status.Conditions, c, now)
	}

	isUpdated := target != "" && status.UpdatedMachineCount == status.MachineCount &&
		status.ReadyMachineCount == status.MachineCount && status.UnavailableMachineCount == 0
	switch {
	case isUpdated:
		set(mcfgv1.PoolUpdated, true, "", "All nodes are updated with MachineConfig "+target)
		set(mcfgv1.PoolUpdating, false, "", "")
		status.Configuration = *pool.Spec.Configuration.DeepCopy()
	case target == "":
		set(mcfgv1.PoolUpdated, false, "", "")
		set(mcfgv1.PoolUpdating, false, "", "")
	case pool.Spec.Paused:
		set(mcfgv1.PoolUpdated, false, "", "")
		set(mcfgv1.PoolUpdating, false, "", "Pool is paused; will not update to MachineConfig "+target+describeBlockedDrains(nodes))
	default:
		set(mcfgv1.PoolUpdated, false, "", "")
		set(mcfgv1.PoolUpdating, true, "", "All nodes are updating to MachineConfig "+target+describeBlockedDrains(nodes))
	}

	reason, message := "", ""
	if len(failing) > 0 {
		reason, message = fmt.Sprintf("%d nodes are reporting degraded status on sync", len(failing)), describeDegradedNodes(failing)
	}

	set(mcfgv1.PoolNodeDegraded, len(failing) > 0, reason, message)
	reason, message = "", ""
	if renderError != nil {
		message = fmt.Sprintf("Failed to render configuration for pool %s: %v", pool.Name, renderError)
	}

	set(mcfgv1.PoolRenderDegraded, renderError != nil, reason, message)
	set(mcfgv1.PoolDegraded, len(failing) > 0 || renderError != nil, "", "")
	return status
}

// Unreadable returns the status of a pool whose nodes cannot be determined: the last status, with the reason.
func Unreadable(pool *mcfgv1.MachineConfigPool, err error, now metav1.Time) mcfgv1.MachineConfigPoolStatus {
	status := *pool.Status.DeepCopy()
	status.ObservedGeneration = pool.Generation
	for conditionType, message := range map[string]string{
		mcfgv1.PoolRenderDegraded: fmt.Sprintf("Failed to render configuration for pool %s: %v", pool.Name, err), mcfgv1.PoolDegraded: "",
	} {
		setCondition(&status.Conditions, mcfgv1.MachineConfigPoolCondition{
			Type: conditionType, Status: metav1.ConditionTrue, Message: message,
		}, now)
	}

	return status
}

// describeDegradedNodes returns what degraded nodes report.
func describeDegradedNodes(failing []*corev1.Node) string {
	var said []string
	for _, node := range failing {
		said = append(said, fmt.Sprintf("Node %s is reporting: %q", node.Name, node.Annotations[mcfgv1.AnnotationReason]))
	}

	return excerpt.Join(said, maxNamedNodes, ", ", ", and ")
}

// conditionOrder is the order of conditions in the status.
var conditionOrder = []string{
	mcfgv1.PoolUpdated, mcfgv1.PoolUpdating, mcfgv1.PoolNodeDegraded, mcfgv1.PoolRenderDegraded, mcfgv1.PoolDegraded,
}

// setCondition sets a condition. It keeps the transition time if the status does not change.
func setCondition(conditions *[]mcfgv1.MachineConfigPoolCondition, c mcfgv1.MachineConfigPoolCondition, now metav1.Time) {
	c.LastTransitionTime = now
	i := slices.IndexFunc(*conditions, func(o mcfgv1.MachineConfigPoolCondition) bool { return o.Type == c.Type })
	if i < 0 {
		*conditions = append(*conditions, c)
		slices.SortStableFunc(*conditions, func(a, b mcfgv1.MachineConfigPoolCondition) int { return conditionRank(a.Type) - conditionRank(b.Type) })
		return
	}

	if (*conditions)[i].Status == c.Status {
		c.LastTransitionTime = (*conditions)[i].LastTransitionTime
	}

	(*conditions)[i] = c
}

func conditionRank(conditionType string) int {
	if i := slices.Index(conditionOrder, conditionType); i >= 0 {
		return i
	}
	return len(conditionOrder)
}

// Is reports whether a condition of a pool is true.
func Is(pool *mcfgv1.MachineConfigPool, conditionType string) bool {
	return slices.ContainsFunc(pool.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == conditionType && c.Status == metav1.ConditionTrue
	})
}
