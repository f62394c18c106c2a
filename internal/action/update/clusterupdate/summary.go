package clusterupdate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// State is the state of the cluster's version in one word.
type State string

// States, in the order in which they are looked for. The first that applies is the state.
const (
	StateInvalid          State = "Invalid"
	StateNotReconciled    State = "NotReconciled"
	StateNotAccepted      State = "ReleaseNotAccepted"
	StateUpdatingFailing  State = "UpdatingFailing"
	StateFailing          State = "Failing"
	StateUpdating         State = "Updating"
	StateNoChannel        State = "NoChannel"
	StateNotRetrieving    State = "NotRetrievingUpdates"
	StateUpdatesAvailable State = "UpdatesAvailable"
	StateUpToDate         State = "UpToDate"
)

// reasonNoChannel is the reason of RetrievedUpdates if no channel is set.
const reasonNoChannel = "NoChannel"

// ClusterVersionSummary is the state of the cluster's version with its reason.
type ClusterVersionSummary struct {
	State State `json:"state" enum:"Invalid,NotReconciled,ReleaseNotAccepted,UpdatingFailing,Failing,Updating,NoChannel,NotRetrievingUpdates,UpdatesAvailable,UpToDate"`
	// Text is a sentence for people.
	Text string `json:"text"`
	// Reason and Message are those of the condition behind the state. They are empty if no condition is.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Advice is what to do. It is empty if nothing has to be done.
	Advice string `json:"advice,omitempty"`
}

// NeedsPerson reports whether the state lasts until a person does something.
func (s *ClusterVersionSummary) NeedsPerson() bool {
	switch s.State {
	case StateInvalid, StateNotReconciled, StateNotAccepted, StateUpdatingFailing, StateFailing, StateNotRetrieving:
		return true
	default:
		return false
	}
}

// Summarize returns the state of the cluster's version.
func Summarize(cv *configv1.ClusterVersion) ClusterVersionSummary {
	updating := conditionWithStatus(cv, configv1.OperatorProgressing, metav1.ConditionTrue)
	failing := conditionWithStatus(cv, configv1.ClusterVersionFailing, metav1.ConditionTrue)
	target := describeRelease(cv.Status.Desired)
	if s := summarizeRefusal(cv); s != nil {
		return *s
	}

	switch {
	case updating != nil && failing != nil:
		return newSummary(StateUpdatingFailing, fmt.Sprintf("The update to %s is in progress and failing", target), failing, "See the ClusterOperators: the update goes on when the problem is solved.")
	case failing != nil:
		return newSummary(StateFailing, fmt.Sprintf("The cluster cannot apply %s", target), failing, "See the ClusterOperators for the one that has the problem.")
	case updating != nil:
		return newSummary(StateUpdating, fmt.Sprintf("The update to %s is in progress", target), updating, "")
	}

	if f := updateServiceFailure(cv); f != nil {
		if f.reason == reasonNoChannel {
			return newSummary(StateNoChannel, "The cluster follows no channel, and looks for no updates", f, "Choose a channel.")
		}
		return newSummary(StateNotRetrieving, "The updates of the cluster are not known", f, "Check the update service and the channel.")
	}
	if n := len(cv.Status.AvailableUpdates); n > 0 {
		return newSummary(StateUpdatesAvailable, fmt.Sprintf("Updates are available. The newest recommended one is %s", Recommended(cv)[0].Version), nil, "")
	}
	return newSummary(StateUpToDate, "The cluster is up to date at "+target, nil, "")
}

// summarizeRefusal returns the state of a spec or a release that the operator does not apply, and nil if it applies it.
func summarizeRefusal(cv *configv1.ClusterVersion) *ClusterVersionSummary {
	if f := conditionWithStatus(cv, configv1.ClusterVersionInvalid, metav1.ConditionTrue); f != nil {
		s := newSummary(StateInvalid, "The ClusterVersion is invalid, and nothing of it is applied", f, "Correct the field that the message names, or cancel the update.")
		return &s
	}
	if f := conditionWithStatus(cv, configv1.ClusterVersionReleaseAccepted, metav1.ConditionFalse); f != nil {
		s := newSummary(StateNotAccepted, "The requested release is not accepted", f, "Solve what the message names, or cancel the update. The operator tries again by itself.")
		return &s
	}
	if len(cv.Status.History) == 0 && cv.Status.Desired.Version == "" {
		s := newSummary(StateNotReconciled, "The cluster-version-operator has not begun to apply a release", nil, "Check that the cluster-version-operator runs.")
		return &s
	}
	return nil
}

func newSummary(state State, text string, f *conditionSummary, advice string) ClusterVersionSummary {
	s := ClusterVersionSummary{State: state, Text: text + ".", Advice: advice}
	if f != nil {
		s.Reason, s.Message = f.reason, f.message
	}
	return s
}

// conditionWithStatus returns a condition of the ClusterVersion if it has a status, and nil otherwise.
func conditionWithStatus(cv *configv1.ClusterVersion, name string, status metav1.ConditionStatus) *conditionSummary {
	if f := findCondition(cv, name); f != nil && f.status == string(status) {
		return f
	}
	return nil
}
