package report

import "errors"

// Error is the error of an operation with the object, the reason and advice.
type Error struct {
	// Object is the failed object, such as `clusterextension "argocd"`.
	Object string
	// Err is the reason.
	Err error
	// Advice is what to do, as a sentence without a full stop. It may be empty.
	Advice string
}

// Error implements error. It returns the object and the reason, but not the advice.
func (e *Error) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Reworded is an error with a text for users that replaces the text of its cause.
type Reworded struct {
	Text string
	// Cause is the original error.
	Cause error
}

// Error implements error.
func (e *Reworded) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Reworded) Unwrap() error { return e.Cause }

// AdviceOf returns the advice of an error, or an empty string.
func AdviceOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Advice
	}
	return ""
}
