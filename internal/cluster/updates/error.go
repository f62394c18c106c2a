package updates

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Reasons of the condition RetrievedUpdates when it is False.
const (
	ReasonNoUpstream            = "NoUpstream"
	ReasonInvalidURI            = "InvalidURI"
	ReasonInvalidID             = "InvalidID"
	ReasonNoArchitecture        = "NoArchitecture"
	ReasonNoCurrentVersion      = "NoCurrentVersion"
	ReasonNoChannel             = "NoChannel"
	ReasonInvalidCurrentVersion = "InvalidCurrentVersion"
	ReasonInvalidRequest        = "InvalidRequest"
	ReasonRemoteFailed          = "RemoteFailed"
	ReasonResponseFailed        = "ResponseFailed"
	ReasonResponseInvalid       = "ResponseInvalid"
	ReasonVersionNotFound       = "VersionNotFound"
)

// RetrieveError is the reason why the updates of a cluster cannot be retrieved.
type RetrieveError struct {
	// Reason is a reason of the RetrievedUpdates condition.
	Reason string
	// Err is the cause.
	Err error
	// RetryAfter is the delay that the update service requested. Zero means none.
	RetryAfter time.Duration
}

// Error implements error.
func (e *RetrieveError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetrieveError) Unwrap() error { return e.Err }

// isTransient reports whether the service failed and the query is valid, so that an earlier
// result may still be correct.
func (e *RetrieveError) isTransient() bool {
	return e.Reason == ReasonRemoteFailed || e.Reason == ReasonResponseFailed || e.Reason == ReasonResponseInvalid
}

// conditionMessage returns the message of the RetrievedUpdates condition.
func (e *RetrieveError) conditionMessage() string {
	switch e.Reason {
	case ReasonNoUpstream, ReasonNoArchitecture, ReasonNoCurrentVersion, ReasonNoChannel, ReasonInvalidCurrentVersion:
		return e.Error() // No request was sent.
	}
	return "Unable to retrieve available updates: " + e.Error()
}

func newRetrieveError(reason, format string, args ...any) *RetrieveError {
	return &RetrieveError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// stripURL removes the URL from an error: it may contain a password, and contains the cluster
// ID.
func stripURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
