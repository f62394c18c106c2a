package diagnosis

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Standing is the state of an extension in a word.
type Standing string

// States of extensions.
const (
	// StandingReady means that the requested bundle is installed and available.
	StandingReady Standing = "Ready"
	// StandingDegraded means that the requested bundle is installed and not available.
	StandingDegraded Standing = "Degraded"
	// StandingInstalling means that the first rollout is in progress.
	StandingInstalling Standing = "Installing"
	// StandingUpdating means that a change of the installed bundle is in progress.
	StandingUpdating Standing = "Updating"
	// StandingRetrying means that the last attempt failed and will be retried.
	StandingRetrying Standing = "Retrying"
	// StandingFailed means that nothing more happens until a user intervenes.
	StandingFailed Standing = "Failed"
	// StandingRemoving means that the extension is being deleted.
	StandingRemoving Standing = "Removing"
	// StandingPlanned means that only a plan is requested.
	StandingPlanned Standing = "Planned"
	// StandingUnknown means that the controller has not reconciled the extension, or cannot
	// determine its state.
	StandingUnknown Standing = "Unknown"
)

// Stand returns the state of an extension and the reason in one line. The reason is empty
// for a ready extension. An extension is ready only if its objects are known to be ready.
// An extension with crashing pods is not ready although its version is installed.
func Stand(ext *olmv1.ClusterExtension) (standing Standing, why string) {
	progressing := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	available := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeAvailable)
	installed := meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled)
	switch {
	case !ext.DeletionTimestamp.IsZero():
		return StandingRemoving, conditionMessage(progressing)
	case progressing == nil || progressing.ObservedGeneration < ext.Generation:
		return StandingUnknown, "operator-controller has not reconciled its latest change yet"
	case ext.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly && !installed:
		return StandingPlanned, conditionMessage(progressing)
	case progressing.Status == metav1.ConditionFalse:
		return StandingFailed, conditionMessage(progressing)
	case progressing.Reason == olmv1.ReasonRetrying:
		return StandingRetrying, conditionMessage(progressing)
	case available != nil && available.Status == metav1.ConditionFalse && progressing.Reason == olmv1.ReasonSucceeded:
		return StandingDegraded, conditionMessage(available)
	case progressing.Reason != olmv1.ReasonSucceeded && installed:
		return StandingUpdating, conditionMessage(progressing)
	case progressing.Reason != olmv1.ReasonSucceeded || !installed:
		return StandingInstalling, conditionMessage(progressing)
	case available == nil || available.Status != metav1.ConditionTrue:
		return StandingUnknown, strings.TrimSuffix("it is unknown whether all of it runs; "+conditionMessage(available), "; ")
	default:
		return StandingReady, ""
	}
}

// conditionMessage returns the message of a condition in one line.
func conditionMessage(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Message), " ")
}
