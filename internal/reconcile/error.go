package reconcile

import (
	"errors"
	"time"
)

// ErrDone, returned by a step, ends the reconciliation with success: the steps
// after it are not run.
var ErrDone = errors.New("done")

// next is what happens after an error.
type next int

const (
	nextRetry next = iota
	nextStop
	nextWait
)

// Error is a failed step: why, under which reason it is reported, and what
// happens next. A plain error is treated as a retry without a reason.
type Error struct {
	// Reason is the reason of the condition that reports the error.
	Reason string

	next  next
	after time.Duration
	err   error
}

// Stop reports that a person must change something: nothing is tried again until an
// object that the controller watches changes.
func Stop(reason string, err error) error {
	return &Error{Reason: reason, next: nextStop, err: err}
}

// Wait reports that something outside is awaited: the reconciliation runs again
// when a watched object changes, and at the latest after the given time. Zero means
// that only a watched object wakes it.
func Wait(reason string, after time.Duration, err error) error {
	return &Error{Reason: reason, next: nextWait, after: after, err: err}
}

// Retry reports that an attempt failed and is made again, with growing pauses.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, next: nextRetry, err: err}
}

// Error is the message of the wrapped error: the reason stands in the condition.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf returns the reason that an error carries, or the fallback.
func ReasonOf(err error, fallback string) string {
	var e *Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return fallback
}

// IsStop reports whether a person must act before anything is tried again.
func IsStop(err error) bool { return nextOf(err) == nextStop }

// IsWait reports whether the error only says that something is awaited.
func IsWait(err error) bool { return nextOf(err) == nextWait }

func nextOf(err error) next {
	var e *Error
	if errors.As(err, &e) {
		return e.next
	}
	return nextRetry
}
