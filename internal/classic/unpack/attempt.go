package unpack

import (
	"fmt"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Reasons and messages by which a failed Job is known. Bundles that are unpacked inline fail by the
// same, followed by what went wrong.
const (
	reasonBackoffLimit  = "BackoffLimitExceeded"
	messageBackoffLimit = "Job has reached the specified backoff limit"
	reasonDeadline      = "DeadlineExceeded"
	messageDeadline     = "Job was active longer than specified deadline"
)

const (
	// firstPullPause and lastPullPause are how long it takes until a pull that failed is tried again:
	// longer from try to try.
	firstPullPause = 5 * time.Second
	lastPullPause  = 2 * time.Minute
	// attemptTTL is how long an attempt is remembered that nobody asks for.
	attemptTTL = time.Hour
	// askSoon is how long to wait for a bundle that was just begun to be pulled: most take a second or two.
	askSoon = time.Second
)

// attempt is what is known of a bundle that is unpacked inline, until it is there. It lives as long as
// the process: the next one begins again.
type attempt struct {
	namespace string // of the catalog
	began     time.Time
	asked     time.Time // when somebody last wanted the bundle
	running   bool
	tries     int       // those that failed
	ended     time.Time // the last of them
	err       error     // of the last of them
}

// isDue reports whether the bundle is to be pulled now, if there is room.
func (a *attempt) isDue(limits Limits, now time.Time) bool {
	if a.running || a.failure(limits, now) != nil {
		return false
	}
	return a.tries == 0 || !now.Before(a.ended.Add(a.pause()))
}

// pause is how long it takes from the last try to the next.
func (a *attempt) pause() time.Duration {
	pause := firstPullPause
	for range a.tries - 1 {
		if pause *= 2; pause >= lastPullPause {
			return lastPullPause
		}
	}
	return pause
}

// deadline is when a pull that begins now ends.
func (a *attempt) deadline(limits Limits, now time.Time) time.Time {
	latest := now.Add(pullTimeout)
	if end := a.began.Add(limits.Timeout); limits.Timeout > 0 && end.Before(latest) {
		return end
	}
	return latest
}

// failed says that a bundle is given up for a while.
type failed struct {
	at              time.Time
	reason, message string
}

// failure returns how the attempt has failed, or nil.
func (a *attempt) failure(limits Limits, now time.Time) *failed {
	end := a.began.Add(limits.Timeout)
	switch {
	case a.running:
		return nil
	case isTerminal(a.err):
		return &failed{a.ended, reasonBackoffLimit, fmt.Sprintf("%s: %v", messageBackoffLimit, a.err)}
	case limits.Timeout > 0 && !now.Before(end) && a.err != nil:
		return &failed{end, reasonDeadline, fmt.Sprintf("%s: %v", messageDeadline, a.err)}
	case limits.Timeout > 0 && !now.Before(end):
		return &failed{end, reasonDeadline, messageDeadline}
	default:
		return nil
	}
}

// rest is how long a failed attempt rests before the next.
func rest(limits Limits) time.Duration {
	if limits.MinRetryInterval > 0 {
		return min(limits.MinRetryInterval, RetryAfter)
	}
	return RetryAfter
}

// isRetried reports whether the attempt has failed and rested.
func (a *attempt) isRetried(limits Limits, now time.Time) bool {
	f := a.failure(limits, now)
	return f != nil && !now.Before(f.at.Add(rest(limits)))
}

// report writes how far the bundle is.
func (a *attempt) report(r *Result, limits Limits, now time.Time) {
	if f := a.failure(limits, now); f != nil {
		r.failed(f.reason, f.message, max(f.at.Add(rest(limits)).Sub(now), askSoon), now)
		return
	}

	switch {
	case a.err != nil:
		r.pending(v1alpha1.BundleLookupReasonJobIncomplete, fmt.Sprintf("%s: Reason: %s, Message: %v", messageIncomplete, pullTrouble[1], a.err), now)
	case a.running:
		r.pending(v1alpha1.BundleLookupReasonJobIncomplete, messageIncomplete, now)
	default:
		r.pending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
	}

	if now.Sub(a.began) < 10*askSoon {
		r.Again = askSoon
	}
}
