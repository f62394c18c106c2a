package csv

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// maxHistory is how many steps of its history a ClusterServiceVersion keeps.
const maxHistory = 20

// Action is what is carried out beside the new phase.
type Action int

const (
	// DoNothing is to write the phase, and no more.
	DoNothing Action = iota
	// DoInstall is to install; the phase comes from how that goes.
	DoInstall
	// DoDelete is to delete the ClusterServiceVersion.
	DoDelete
)

// Outcome is what a pass comes to.
type Outcome struct {
	// Phase, Reason and Message are the new status; with an empty Phase it stays.
	Phase           v1alpha1.ClusterServiceVersionPhase
	Reason, Message string
	// Requirements are those found; nil leaves those of the status.
	Requirements []v1alpha1.RequirementStatus
	Do           Action
	// After is how long until the next pass, if nothing that is watched changes; zero is for ever.
	After time.Duration
	// Err is why the pass could not do its work. It is made again, with growing pauses.
	Err error
}

func to(phase v1alpha1.ClusterServiceVersionPhase, reason, message string) Outcome {
	return Outcome{Phase: phase, Reason: reason, Message: message}
}

func stay() Outcome { return Outcome{} }

// Record writes an outcome into a status, and tells whether phase, reason or message changed. The
// history gets an entry when the phase or the reason did.
func Record(status *v1alpha1.ClusterServiceVersionStatus, o Outcome, now time.Time) (changed bool) {
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

	if over := len(status.Conditions) - maxHistory; over > 0 {
		status.Conditions = status.Conditions[over:]
	}

	return true
}

const (
	// freeAttempts are the installations within attemptWindow that follow each other at once. Each
	// further one waits twice as long as the one before, from firstPause to lastPause, so that an
	// operator that cannot be installed does not keep the cluster busy.
	freeAttempts  = 3
	attemptWindow = 10 * time.Minute
	firstPause    = 5 * time.Second
	lastPause     = 5 * time.Minute
)

// pause is how long the next installation still waits.
func pause(status *v1alpha1.ClusterServiceVersionStatus, now time.Time) time.Duration {
	var attempts int
	var last time.Time
	for _, c := range status.Conditions {
		if c.Phase == v1alpha1.CSVPhaseInstallReady && c.LastTransitionTime != nil && now.Sub(c.LastTransitionTime.Time) < attemptWindow {
			attempts++
			last = c.LastTransitionTime.Time
		}
	}

	if attempts <= freeAttempts {
		return 0
	}

	wait := min(firstPause<<(attempts-freeAttempts-1), lastPause)
	return max(0, wait-now.Sub(last))
}
