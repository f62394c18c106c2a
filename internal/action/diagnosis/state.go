package diagnosis

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// State is the state of an extension in a word.
type State string

// States of extensions.
const (
	// StateReady means that the requested bundle is installed and available.
	StateReady State = "Ready"
	// StateDegraded means that the requested bundle is installed and not available.
	StateDegraded State = "Degraded"
	// StateInstalling means that the first rollout is in progress.
	StateInstalling State = "Installing"
	// StateUpdating means that a change of the installed bundle is in progress.
	StateUpdating State = "Updating"
	// StateRetrying means that the last attempt failed and will be retried.
	StateRetrying State = "Retrying"
	// StateFailed means that nothing more happens until a user intervenes.
	StateFailed State = "Failed"
	// StateRemoving means that the extension is being deleted.
	StateRemoving State = "Removing"
	// StatePlanned means that only a plan is requested.
	StatePlanned State = "Planned"
	// StateUnknown means that the controller has not reconciled the extension, or cannot
	// determine its state.
	StateUnknown State = "Unknown"
)

// StateOf returns the state of an extension and the reason in one line. The reason is empty
// for a ready extension. An extension is ready only if its objects are known to be ready.
// An extension with crashing pods is not ready although its version is installed.
func StateOf(ext *olmv1.ClusterExtension) (standing State, why string) {
	progressing := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	available := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeAvailable)
	installed := meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled)
	switch {
	case !ext.DeletionTimestamp.IsZero():
		return StateRemoving, conditionMessage(progressing)
	case progressing == nil || progressing.ObservedGeneration < ext.Generation:
		return StateUnknown, "operator-controller has not reconciled its latest change yet"
	case ext.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly && !installed:
		return StatePlanned, conditionMessage(progressing)
	case progressing.Status == metav1.ConditionFalse:
		return StateFailed, conditionMessage(progressing)
	case progressing.Reason == olmv1.ReasonRetrying:
		return StateRetrying, conditionMessage(progressing)
	case available != nil && available.Status == metav1.ConditionFalse && progressing.Reason == olmv1.ReasonSucceeded:
		return StateDegraded, conditionMessage(available)
	case progressing.Reason != olmv1.ReasonSucceeded && installed:
		return StateUpdating, conditionMessage(progressing)
	case progressing.Reason != olmv1.ReasonSucceeded || !installed:
		return StateInstalling, conditionMessage(progressing)
	case available == nil || available.Status != metav1.ConditionTrue:
		return StateUnknown, strings.TrimSuffix("it is unknown whether all of it runs; "+conditionMessage(available), "; ")
	default:
		return StateReady, ""
	}
}

// conditionMessage returns the message of a condition in one line.
func conditionMessage(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Message), " ")
}
