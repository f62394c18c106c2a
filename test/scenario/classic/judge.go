package classic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// Facts are the objects of an operator.
type Facts struct {
	Subscription *v1alpha1.Subscription
	// Plans are the InstallPlans of its namespace, the oldest first.
	Plans []v1alpha1.InstallPlan
	// CSVs are the ClusterServiceVersions of its namespace.
	CSVs []v1alpha1.ClusterServiceVersion
}

// refusalTexts are parts of messages that name an obstacle which does not go away in this scenario.
var refusalTexts = []string{
	"apiextensions.k8s.io/v1beta1", // The API server does not serve this version of CRDs.
	"requires an operator",         // Nothing in the catalog provides what the bundle depends on.
}

// isKnownRefusal reports whether a message names a true obstacle.
func isKnownRefusal(message string) bool {
	return slices.ContainsFunc(refusalTexts, func(text string) bool { return strings.Contains(message, text) })
}

// Judge returns the outcome for the ClusterServiceVersion that is expected. It is empty while there is
// no outcome yet; the second result is then the current state.
func (f *Facts) Judge(csv string) (trial.Outcome, string) {
	if message := f.resolutionFailure(); isKnownRefusal(message) && !f.isUpgrading() {
		return trial.Refused, message
	}

	if plan := f.planFor(csv); plan != nil && plan.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
		message := planMessage(plan)
		switch {
		case isKnownRefusal(message):
			return trial.Refused, message
		case plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
			return trial.Unexpected, "the InstallPlan failed: " + message
		}
		return "", fmt.Sprintf("InstallPlan %s is %s: %s", plan.Name, cmp.Or(string(plan.Status.Phase), "new"), message)
	}

	found := f.FindCSV(csv)
	switch {
	case found == nil:
		return "", fmt.Sprintf("there is no ClusterServiceVersion %s; %s", csv, f.describeSubscription())
	case found.Status.Phase == v1alpha1.CSVPhaseFailed && found.Status.Reason == v1alpha1.CSVReasonUnsupportedOperatorGroup:
		return trial.Refused, found.Status.Message
	case found.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return "", fmt.Sprintf("ClusterServiceVersion %s is %s: %s: %s", csv, found.Status.Phase, found.Status.Reason, describeRequirements(found))
	case f.Subscription.Status.InstalledCSV != csv:
		return "", fmt.Sprintf("%s works, but the Subscription has %q installed", csv, f.Subscription.Status.InstalledCSV)
	}

	for i := range f.CSVs {
		if other := &f.CSVs[i]; other.Status.Phase != v1alpha1.CSVPhaseSucceeded || other.DeletionTimestamp != nil {
			return "", fmt.Sprintf("%s works, but %s is %s: %s", csv, other.Name, other.Status.Phase, other.Status.Message)
		}
	}

	return trial.Installed, ""
}

// resolutionFailure returns the message of the condition ResolutionFailed, or "" if it is not set.
func (f *Facts) resolutionFailure() string {
	for _, c := range f.Subscription.Status.Conditions {
		if c.Type == v1alpha1.SubscriptionResolutionFailed && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// isUpgrading reports whether a ClusterServiceVersion is being replaced by another one.
func (f *Facts) isUpgrading() bool {
	return slices.ContainsFunc(f.CSVs, func(csv v1alpha1.ClusterServiceVersion) bool {
		return f.FindCSV(csv.Spec.Replaces) != nil
	})
}

// falseAlarm returns the condition ResolutionFailed during an upgrade, with the state of the
// ClusterServiceVersions, or "" if it is not set.
func (f *Facts) falseAlarm() string {
	message := f.resolutionFailure()
	if message == "" || !f.isUpgrading() {
		return ""
	}

	var states []string
	for i := range f.CSVs {
		csv := &f.CSVs[i]
		states = append(states, fmt.Sprintf("%s is %s (%s: %s)", csv.Name, csv.Status.Phase, csv.Status.Reason, describeRequirements(csv)))
	}
	return fmt.Sprintf("ResolutionFailed during the upgrade, while %s: %s", strings.Join(states, ", "), message)
}

// PendingPlan returns the InstallPlan that waits for approval, or nil.
func (f *Facts) PendingPlan() *v1alpha1.InstallPlan {
	for i := range f.Plans {
		if f.Plans[i].Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval && !f.Plans[i].Spec.Approved {
			return &f.Plans[i]
		}
	}
	return nil
}

// FindCSV returns a ClusterServiceVersion, or nil.
func (f *Facts) FindCSV(name string) *v1alpha1.ClusterServiceVersion {
	for i := range f.CSVs {
		if f.CSVs[i].Name == name {
			return &f.CSVs[i]
		}
	}
	return nil
}

// planFor returns the newest InstallPlan for a ClusterServiceVersion, or nil.
func (f *Facts) planFor(csv string) *v1alpha1.InstallPlan {
	for i := len(f.Plans) - 1; i >= 0; i-- {
		if slices.Contains(f.Plans[i].Spec.ClusterServiceVersionNames, csv) {
			return &f.Plans[i]
		}
	}
	return nil
}

func (f *Facts) describeSubscription() string {
	facts := []string{fmt.Sprintf("the Subscription has state %q and chose %q", f.Subscription.Status.State, f.Subscription.Status.CurrentCSV)}
	for _, c := range f.Subscription.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			facts = append(facts, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	return strings.Join(facts, "; ")
}

// planMessage returns the message of an InstallPlan, its conditions and its bundles.
func planMessage(plan *v1alpha1.InstallPlan) string {
	messages := []string{plan.Status.Message}
	for _, c := range plan.Status.Conditions {
		if c.Status != corev1.ConditionTrue && !slices.Contains(messages, c.Message) {
			messages = append(messages, c.Message)
		}
	}
	return strings.TrimSpace(strings.Join(messages, " "))
}

// describeRequirements returns the message of a ClusterServiceVersion with its requirements that are
// not met.
func describeRequirements(csv *v1alpha1.ClusterServiceVersion) string {
	facts := []string{csv.Status.Message}
	for _, r := range csv.Status.RequirementStatus {
		if r.Status != v1alpha1.RequirementPresent {
			facts = append(facts, fmt.Sprintf("%s %s: %s %s", r.Kind, r.Name, r.Status, r.Message))
		}
	}
	return strings.Join(facts, "; ")
}
