package diagnosis

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Standing is how an extension is, in a word.
type Standing string

// Standings of extensions.
const (
	// StandingReady: what is wanted is installed, and all of it runs.
	StandingReady Standing = "Ready"
	// StandingDegraded: what is wanted is installed, and not all of it runs.
	StandingDegraded Standing = "Degraded"
	// StandingInstalling: nothing is installed yet, and the roll-out is on its way.
	StandingInstalling Standing = "Installing"
	// StandingUpdating: a change of what is installed is on its way.
	StandingUpdating Standing = "Updating"
	// StandingRetrying: the last attempt failed, and another is made by itself.
	StandingRetrying Standing = "Retrying"
	// StandingFailed: nothing more happens until somebody changes something.
	StandingFailed Standing = "Failed"
	// StandingRemoving: it is being deleted.
	StandingRemoving Standing = "Removing"
	// StandingPlanned: only a plan is wanted.
	StandingPlanned Standing = "Planned"
	// StandingUnknown: the controller has not looked at it, or cannot tell.
	StandingUnknown Standing = "Unknown"
)

// Stand returns how an extension is, and why, in a line. The reason is empty when it is ready.
// Only an extension whose objects are known to be ready is: one that waits for pods that crash
// is not, although its version is installed.
func Stand(ext *olmv1.ClusterExtension) (standing Standing, why string) {
	progressing := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	available := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeAvailable)
	installed := meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled)
	switch {
	case !ext.DeletionTimestamp.IsZero():
		return StandingRemoving, messageOf(progressing)
	case progressing == nil || progressing.ObservedGeneration < ext.Generation:
		return StandingUnknown, "the operator-controller has not looked at its latest change yet"
	case ext.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly && !installed:
		return StandingPlanned, messageOf(progressing)
	case progressing.Status == metav1.ConditionFalse:
		return StandingFailed, messageOf(progressing)
	case progressing.Reason == olmv1.ReasonRetrying:
		return StandingRetrying, messageOf(progressing)
	case available != nil && available.Status == metav1.ConditionFalse && progressing.Reason == olmv1.ReasonSucceeded:
		return StandingDegraded, messageOf(available)
	case progressing.Reason != olmv1.ReasonSucceeded && installed:
		return StandingUpdating, messageOf(progressing)
	case progressing.Reason != olmv1.ReasonSucceeded || !installed:
		return StandingInstalling, messageOf(progressing)
	case available == nil || available.Status != metav1.ConditionTrue:
		return StandingUnknown, strings.TrimSuffix("whether all of it runs is not known; "+messageOf(available), "; ")
	default:
		return StandingReady, ""
	}
}

// messageOf returns the message of a condition in one line.
func messageOf(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Message), " ")
}
