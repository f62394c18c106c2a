package report

import "errors"

// Error is an operation that failed: at which object, why, and what a person can do.
type Error struct {
	// Object is what the operation failed at, as in `clusterextension "argocd"`.
	Object string
	// Err is the reason.
	Err error
	// Advice is what to do about it, as a sentence without a full stop. It may be empty.
	Advice string
}

// Error returns the object and the reason. The advice stands on its own.
func (e *Error) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Reworded is an error in words for people, in place of those of its cause.
type Reworded struct {
	Text string
	// Cause is the error whose words they replace.
	Cause error
}

// Error returns the words.
func (e *Reworded) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Reworded) Unwrap() error { return e.Cause }

// AdviceOf returns the advice that an error carries, or "".
func AdviceOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Advice
	}
	return ""
}
