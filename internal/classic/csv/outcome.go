package csv

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// maxConditions limits the conditions that the status of a ClusterServiceVersion keeps.
const maxConditions = 20

// Action is an action to carry out instead of a change of phase.
type Action int

const (
	// DoNothing means that only the phase is recorded.
	DoNothing Action = iota
	// DoInstall installs the operator. The result of the installation determines the phase.
	DoInstall
	// DoDelete deletes the ClusterServiceVersion.
	DoDelete
)

// Outcome is the result of a decision.
type Outcome struct {
	// Phase, Reason and Message are the new status; an empty Phase keeps the current one.
	Phase           v1alpha1.ClusterServiceVersionPhase
	Reason, Message string
	// Requirements are the checked requirements; nil keeps those in the status.
	Requirements []v1alpha1.RequirementStatus
	Action       Action
	// RequeueAfter is the time until the next reconcile if no watched object changes; zero means never.
	RequeueAfter time.Duration
	// Err is why the reconcile failed. It is retried with exponential backoff.
	Err error
}

func transitionTo(phase v1alpha1.ClusterServiceVersionPhase, reason, message string) Outcome {
	return Outcome{Phase: phase, Reason: reason, Message: message}
}

func keepPhase() Outcome { return Outcome{} }

// RecordOutcome sets an outcome in a status and reports whether phase, reason or message changed. It
// appends a condition when the phase or the reason changed.
func RecordOutcome(status *v1alpha1.ClusterServiceVersionStatus, o Outcome, now time.Time) (changed bool) {
	at := metav1.NewTime(now)
	if o.Requirements != nil && !equality.Semantic.DeepEqual(status.RequirementStatus, o.Requirements) {
		status.RequirementStatus, status.LastUpdateTime = o.Requirements, &at
	}
	if o.Phase == v1alpha1.CSVPhaseNone || status.Phase == o.Phase && status.Reason == o.Reason && status.Message == o.Message {
		return false
	}
	if status.Phase != o.Phase || status.Reason != o.Reason {
		status.LastTransitionTime = &at
	}

	status.Phase, status.Reason, status.Message, status.LastUpdateTime = o.Phase, o.Reason, o.Message, &at
	last := len(status.Conditions) - 1
	if last < 0 || status.Conditions[last].Phase != o.Phase || status.Conditions[last].Reason != o.Reason {
		status.Conditions = append(slices.Clone(status.Conditions), v1alpha1.ClusterServiceVersionCondition{
			Phase: o.Phase, Reason: o.Reason, Message: o.Message, LastUpdateTime: &at, LastTransitionTime: &at,
		})
	}

	if over := len(status.Conditions) - maxConditions; over > 0 {
		status.Conditions = status.Conditions[over:]
	}

	return true
}

const (
	// maxImmediateAttempts limits the installations within attemptWindow that follow without a wait.
	// Each further attempt backs off for twice as long, from minInstallRetryInterval to maxInstallRetryInterval,
	// so that an operator that cannot be installed does not keep the cluster busy.
	maxImmediateAttempts    = 3
	attemptWindow           = 10 * time.Minute
	minInstallRetryInterval = 5 * time.Second
	maxInstallRetryInterval = 5 * time.Minute
)

// remainingInstallRetryInterval returns how long to wait until the next attempt to install.
func remainingInstallRetryInterval(status *v1alpha1.ClusterServiceVersionStatus, now time.Time) time.Duration {
	var attempts int
	var last time.Time
	for _, c := range status.Conditions {
		if c.Phase == v1alpha1.CSVPhaseInstallReady && c.LastTransitionTime != nil && now.Sub(c.LastTransitionTime.Time) < attemptWindow {
			attempts++
			last = c.LastTransitionTime.Time
		}
	}

	if attempts <= maxImmediateAttempts {
		return 0
	}

	wait := min(minInstallRetryInterval<<(attempts-maxImmediateAttempts-1), maxInstallRetryInterval)
	return max(0, wait-now.Sub(last))
}
