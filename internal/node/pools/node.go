package pools

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Current is the configuration that a node has; empty before its daemon has reported.
func Current(node *corev1.Node) string { return node.Annotations[mcfgv1.AnnotationCurrentConfig] }

// Desired is the configuration that a node is to have; empty before it was told.
func Desired(node *corev1.Node) string { return node.Annotations[mcfgv1.AnnotationDesiredConfig] }

// State is what the daemon of a node is doing; empty before it has reported.
func State(node *corev1.Node) mcfgv1.NodeState {
	return mcfgv1.NodeState(node.Annotations[mcfgv1.AnnotationState])
}

// reasonNotReady is what kubectl calls a node whose kubelet does not report that it is ready.
const reasonNotReady = "NotReady"

// IsReady reports whether the kubelet of a node reports that it is ready.
func IsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// NotReady says why a node cannot take pods, by what its kubelet reports and whether it is
// cordoned. Empty means that it can.
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

// IsFailing reports whether the daemon of a node could not do what it should.
func IsFailing(node *corev1.Node) bool {
	state := State(node)
	return state == mcfgv1.NodeDegraded || state == mcfgv1.NodeUnreconcilable
}

// isDone reports whether a node has what it is to have. One that was never told is done when its
// daemon has reported: it waits for its turn.
func isDone(node *corev1.Node) bool {
	return Current(node) == Desired(node) && State(node) == mcfgv1.NodeDone
}

// isAt reports whether a node has a configuration and is to have no other.
func isAt(node *corev1.Node, target string) bool { return isDone(node) && Current(node) == target }

// IsUnavailable reports whether a node takes part in nothing now: it is not ready, or its daemon is
// at work, or has not reported. One whose daemon has failed is not for that reason; it counts by
// itself.
func IsUnavailable(node *corev1.Node) bool {
	return NotReady(node) != "" || (!isDone(node) && !IsFailing(node))
}

// Phase is how far a node is, for people.
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

// PhaseOf returns how far a node is on its way to a configuration.
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
