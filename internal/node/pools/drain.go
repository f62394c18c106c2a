package pools

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// IsDraining reports whether a node is being drained for an update.
func IsDraining(node *corev1.Node) bool {
	drain := node.Annotations[mcfgv1.AnnotationDesiredDrain]
	return drain == mcfgv1.DrainPrefix+Desired(node) && node.Annotations[mcfgv1.AnnotationLastAppliedDrain] != drain
}

// FormatDrainStarted returns the value of AnnotationDrainStarted for a requested drain.
func FormatDrainStarted(started time.Time, desired string) string {
	return started.UTC().Format(time.RFC3339) + " " + desired
}

// DrainStarted returns the start time of the drain that the daemon of a node requests. It is zero if the drain has not begun.
func DrainStarted(node *corev1.Node) time.Time {
	at, desired, _ := strings.Cut(node.Annotations[mcfgv1.AnnotationDrainStarted], " ")
	started, err := time.Parse(time.RFC3339, at)
	if err != nil || desired != node.Annotations[mcfgv1.AnnotationDesiredDrain] {
		return time.Time{}
	}
	return started
}

// DrainBlocker returns what blocks the drain of a node, such as pods and disruption budgets, and since when. It is empty if no drain
// runs, or if nothing blocks it.
func DrainBlocker(node *corev1.Node) string {
	if !IsDraining(node) {
		return ""
	}
	return node.Annotations[mcfgv1.AnnotationReason]
}

// describeBlockedDrains returns what blocks the drains of nodes, as the end of a sentence about their pool. It omits
// degraded nodes, which another condition of the pool explains.
func describeBlockedDrains(nodes []*corev1.Node) string {
	var blocked []string
	for _, node := range nodes {
		if blocker := DrainBlocker(node); blocker != "" && !IsFailing(node) {
			blocked = append(blocked, fmt.Sprintf("Node %s is not drained: %s", node.Name, blocker))
		}
	}

	if len(blocked) == 0 {
		return ""
	}

	slices.Sort(blocked)
	if more := len(blocked) - maxNamedNodes; more > 0 {
		blocked = append(blocked[:maxNamedNodes], fmt.Sprintf("%d more nodes are not drained", more))
	}

	return ". " + strings.Join(blocked, ". ")
}
