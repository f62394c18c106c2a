package unpack

import (
	"errors"
	"fmt"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// Reasons and messages of failed Jobs. Bundles that are unpacked inline fail with the same
// ones, followed by the cause.
const (
	reasonBackoffLimit  = "BackoffLimitExceeded"
	messageBackoffLimit = "Job has reached the specified backoff limit"
	reasonDeadline      = "DeadlineExceeded"
	messageDeadline     = "Job was active longer than specified deadline"
)

const (
	// minPullRetryInterval and maxPullRetryInterval bound the interval before a failed pull is
	// retried. It doubles with each failure.
	minPullRetryInterval = 5 * time.Second
	maxPullRetryInterval = 2 * time.Minute
	// attemptTTL is how long an attempt is kept that is not requested any more.
	attemptTTL = time.Hour
	// initialRequeueInterval is the requeue interval shortly after a pull was started: most
	// pulls take a second or two.
	initialRequeueInterval = time.Second
)

// pullAttempt is the state of a bundle that is unpacked inline, until its ConfigMap exists. It
// is not persisted: a new process starts a new attempt.
type pullAttempt struct {
	image           string
	startedAt       time.Time
	lastRequestedAt time.Time // when the bundle was last requested
	running         bool
	failures        int       // those that failed
	lastFailedAt    time.Time // the last of them
	lastErr         error     // of the last of them
}

// recordPull records the state of the last pull, and its error if it has ended with one.
func (a *pullAttempt) recordPull(state pull.State, err error, now time.Time) {
	a.running = state == pull.Running
	if state == pull.Ended && err != nil {
		a.failures, a.lastFailedAt, a.lastErr = a.failures+1, now, err
	}
}

// isPullDue reports whether the bundle can be pulled now if a slot is free.
func (a *pullAttempt) isPullDue(limits Limits, now time.Time) bool {
	if a.running || a.failureAt(limits, now) != nil {
		return false
	}
	return a.failures == 0 || !now.Before(a.lastFailedAt.Add(a.retryInterval()))
}

// retryInterval returns the interval between the last failure and the next pull.
func (a *pullAttempt) retryInterval() time.Duration {
	interval := minPullRetryInterval
	for range a.failures - 1 {
		if interval *= 2; interval >= maxPullRetryInterval {
			return maxPullRetryInterval
		}
	}
	return interval
}

// pullDeadline returns the deadline of a pull that starts now.
func (a *pullAttempt) pullDeadline(limits Limits, now time.Time) time.Time {
	latest := now.Add(pullTimeout)
	if end := a.startedAt.Add(limits.Timeout); limits.Timeout > 0 && end.Before(latest) {
		return end
	}
	return latest
}

// attemptFailure is the failure of an attempt, which is retried after failedAttemptInterval.
type attemptFailure struct {
	at              time.Time
	reason, message string
}

// failureAt returns the failure of the attempt, or nil if it has not failed.
func (a *pullAttempt) failureAt(limits Limits, now time.Time) *attemptFailure {
	end := a.startedAt.Add(limits.Timeout)
	switch {
	case a.running:
		return nil
	case isTerminal(a.lastErr):
		return &attemptFailure{a.lastFailedAt, reasonBackoffLimit, fmt.Sprintf("%s: %v", messageBackoffLimit, a.lastErr)}
	case limits.Timeout > 0 && !now.Before(end) && a.lastErr != nil:
		return &attemptFailure{end, reasonDeadline, fmt.Sprintf("%s: %v", messageDeadline, a.lastErr)}
	case limits.Timeout > 0 && !now.Before(end):
		return &attemptFailure{end, reasonDeadline, messageDeadline}
	default:
		return nil
	}
}

// failedAttemptInterval returns the interval between a failed attempt and the next one.
func failedAttemptInterval(limits Limits) time.Duration {
	if limits.MinRetryInterval > 0 {
		return min(limits.MinRetryInterval, FailedRequeueInterval)
	}
	return FailedRequeueInterval
}

// isRetryDue reports whether the attempt has failed and a new one can start.
func (a *pullAttempt) isRetryDue(limits Limits, now time.Time) bool {
	f := a.failureAt(limits, now)
	return f != nil && !now.Before(f.at.Add(failedAttemptInterval(limits)))
}

// reportProgressTo sets the conditions and the requeue interval of a result.
func (a *pullAttempt) reportProgressTo(r *Result, limits Limits, now time.Time) {
	if f := a.failureAt(limits, now); f != nil {
		r.setLookupFailed(f.reason, f.message, max(f.at.Add(failedAttemptInterval(limits)).Sub(now), initialRequeueInterval), now)
		return
	}

	var storing *storeError
	switch {
	case errors.As(a.lastErr, &storing):
		r.setLookupPending(v1alpha1.BundleLookupReasonJobIncomplete, fmt.Sprintf("%s: %v", messageIncomplete, storing), now)
	case a.lastErr != nil:
		r.setLookupPending(v1alpha1.BundleLookupReasonJobIncomplete, fmt.Sprintf("%s: Reason: %s, Message: %v", messageIncomplete, imagePullReasons[1], a.lastErr), now)
	case a.running:
		r.setLookupPending(v1alpha1.BundleLookupReasonJobIncomplete, messageIncomplete, now)
	default:
		r.setLookupPending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
	}

	if now.Sub(a.startedAt) < 10*initialRequeueInterval {
		r.RequeueAfter = initialRequeueInterval
	}
}
