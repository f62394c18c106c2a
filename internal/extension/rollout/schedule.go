package rollout

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// schedule determines when a revision is reconciled again, and when its status is written.
type schedule struct {
	clock   clock.PassiveClock
	watches *watchManager
}

// isTransientStatus reports whether the first rollout, or the removal, is in progress without a
// problem. The watches mostly report the next step immediately.
func (s schedule) isTransientStatus(set *olmv1.ClusterObjectSet, err error) bool {
	if isInactiveRevision(set) {
		return reconcile.IsWait(err) && s.watches.isFullyWatched(set.Name)
	}
	var incomplete *incompleteError
	return errors.As(err, &incomplete) && !hasSucceeded(set) && !s.isDeadlineExceeded(set) && s.watches.isFullyWatched(set.Name)
}

// resyncIntervalAfterSuccess returns the resync interval of a complete revision. Zero means that
// only events enqueue it.
func (s schedule) resyncIntervalAfterSuccess(set *olmv1.ClusterObjectSet, _ facts, _ *decision) time.Duration {
	switch {
	case hasFinishedArchiving(set):
		return 0
	case s.watches.isFullyWatched(set.Name):
		return wait.Jitter(stableResyncInterval, 0.2)
	default:
		return s.jitteredResyncInterval(set)
	}
}

// jitteredResyncInterval returns the time until the next resync, but at most until the progress
// deadline. It has jitter, so that revisions are not reconciled all at once.
func (s schedule) jitteredResyncInterval(set *olmv1.ClusterObjectSet) time.Duration {
	interval := wait.Jitter(defaultResyncInterval, 0.2)
	if deadline, ok := progressDeadline(set); ok {
		if left := deadline.Sub(s.clock.Now()); left > 0 {
			interval = min(interval, left)
		}
	}
	return interval
}

// isDeadlineExceeded reports whether the progress deadline has passed before the first complete
// rollout.
func (s schedule) isDeadlineExceeded(set *olmv1.ClusterObjectSet) bool {
	deadline, ok := progressDeadline(set)
	return ok && !s.clock.Now().Before(deadline)
}

// progressDeadline returns the time by which the first rollout must be complete. It returns false
// if there is no deadline, or if the rollout was complete before.
func progressDeadline(set *olmv1.ClusterObjectSet) (time.Time, bool) {
	if set.Spec.ProgressDeadlineMinutes == nil || hasSucceeded(set) {
		return time.Time{}, false
	}
	return set.CreationTimestamp.Add(time.Duration(*set.Spec.ProgressDeadlineMinutes) * time.Minute), true
}
