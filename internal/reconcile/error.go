package reconcile

import (
	"errors"
	"time"
)

// next is what happens after an error.
type next int

const (
	nextRetry next = iota
	nextStop
	nextWait
)

// Error is the error of a failed pass: its cause, the reason of the condition that reports it, and
// what happens next. A plain error counts as Retry without a reason.
type Error struct {
	// Reason is the reason of the condition that reports the error.
	Reason string

	next  next
	after time.Duration
	err   error
}

// Stop returns an error that a user must resolve. Nothing is retried until a watched object
// changes.
func Stop(reason string, err error) error {
	return &Error{Reason: reason, next: nextStop, err: err}
}

// Wait returns an error for a state that is awaited. The object is reconciled again when a watched
// object changes, and at the latest after the given time. Zero means that only a watched object
// enqueues it.
func Wait(reason string, after time.Duration, err error) error {
	return &Error{Reason: reason, next: nextWait, after: after, err: err}
}

// Retry returns an error for a failed attempt. It is retried with exponential backoff.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, next: nextRetry, err: err}
}

// Error returns the message of the wrapped error, without the reason.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf returns the reason of an error, or the fallback if it has none.
func ReasonOf(err error, fallback string) string {
	var e *Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return fallback
}

// IsStop reports whether a user must act before anything is retried.
func IsStop(err error) bool { return nextActionOf(err) == nextStop }

// IsWait reports whether the error was made by Wait.
func IsWait(err error) bool { return nextActionOf(err) == nextWait }

func nextActionOf(err error) next {
	var e *Error
	if errors.As(err, &e) {
		return e.next
	}
	return nextRetry
}
