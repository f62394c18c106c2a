package pools

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Current returns the configuration that a node has; empty before its daemon has reported.
func Current(node *corev1.Node) string { return node.Annotations[mcfgv1.AnnotationCurrentConfig] }

// Desired returns the configuration that a node shall have; empty before one was assigned.
func Desired(node *corev1.Node) string { return node.Annotations[mcfgv1.AnnotationDesiredConfig] }

// State returns the state that the daemon of a node reports; empty before it has reported.
func State(node *corev1.Node) mcfgv1.NodeState {
	return mcfgv1.NodeState(node.Annotations[mcfgv1.AnnotationState])
}

// reasonNotReady is the status that kubectl shows for a node that is not ready.
const reasonNotReady = "NotReady"

// IsReady reports whether the kubelet of a node reports that it is ready.
func IsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// NotReady returns why a node cannot take pods: the report of its kubelet, or that it is cordoned. It is empty when the node
// can take pods.
func NotReady(node *corev1.Node) string {
	isReady, message := false, ""
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			isReady, message = c.Status == corev1.ConditionTrue, c.Message
		case c.Type == corev1.NodeDiskPressure && c.Status != corev1.ConditionFalse:
			return "its disk is full"
		case c.Type == corev1.NodeNetworkUnavailable && c.Status != corev1.ConditionFalse:
			return "its network is unavailable"
		}
	}

	switch {
	case !isReady && message != "":
		return reasonNotReady + ": " + message
	case !isReady:
		return reasonNotReady
	case node.Spec.Unschedulable:
		return "it is cordoned"
	}

	return ""
}

// IsFailing reports whether the daemon of a node reports a failure.
func IsFailing(node *corev1.Node) bool {
	state := State(node)
	return state == mcfgv1.NodeDegraded || state == mcfgv1.NodeUnreconcilable
}

// isDone reports whether a node has its desired configuration. A node without a desired configuration is done once its
// daemon has reported.
func isDone(node *corev1.Node) bool {
	return Current(node) == Desired(node) && State(node) == mcfgv1.NodeDone
}

// isAt reports whether a node has a configuration, and no other one is desired.
func isAt(node *corev1.Node, target string) bool { return isDone(node) && Current(node) == target }

// IsUnavailable reports whether a node is not ready, is being updated, or has not reported. A node whose daemon reports a
// failure is not unavailable for that reason alone; callers count it separately.
func IsUnavailable(node *corev1.Node) bool {
	return NotReady(node) != "" || (!isDone(node) && !IsFailing(node))
}

// Phase is the phase of a node's update, for display.
type Phase string

// Phases of a node.
const (
	PhasePending   Phase = "Pending"
	PhaseDraining  Phase = "Draining"
	PhaseUpdating  Phase = "Updating"
	PhaseRebooting Phase = "Rebooting"
	PhasePaused    Phase = "Paused"
	PhaseUpdated   Phase = "Updated"
)

// PhaseOf returns the phase of the update of a node to a configuration.
func PhaseOf(node *corev1.Node, target string, paused bool) Phase {
	switch {
	case isAt(node, target):
		return PhaseUpdated
	case State(node) == mcfgv1.NodeRebooting:
		return PhaseRebooting
	case Desired(node) != Current(node) && IsDraining(node):
		return PhaseDraining
	case Desired(node) != Current(node) || State(node) == mcfgv1.NodeWorking:
		return PhaseUpdating
	case paused:
		return PhasePaused
	}

	return PhasePending
}
