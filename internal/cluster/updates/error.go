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

// RetrieveError says why the updates of a cluster are not known.
type RetrieveError struct {
	// Reason is one of those of the condition RetrievedUpdates.
	Reason string
	// Err is what is wrong, for people.
	Err error
	// Pause is how long the update service asked to be left alone. Zero: it did not.
	Pause time.Duration
}

// Error implements error.
func (e *RetrieveError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *RetrieveError) Unwrap() error { return e.Err }

// isPassing reports whether what was known before may still be true: the service, and not
// the question, is at fault.
func (e *RetrieveError) isPassing() bool {
	return e.Reason == ReasonRemoteFailed || e.Reason == ReasonResponseFailed || e.Reason == ReasonResponseInvalid
}

// message is that of the condition.
func (e *RetrieveError) message() string {
	switch e.Reason {
	case ReasonNoUpstream, ReasonNoArchitecture, ReasonNoCurrentVersion, ReasonNoChannel, ReasonInvalidCurrentVersion:
		return e.Error() // Nothing was tried.
	}
	return "Unable to retrieve available updates: " + e.Error()
}

func failf(reason, format string, args ...any) *RetrieveError {
	return &RetrieveError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// bare takes the address out of an error: it may hold a password, and holds the cluster's
// identity.
func bare(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
