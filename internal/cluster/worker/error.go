package worker

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// Effect is what an Error means for the pass and for the conditions of the
// ClusterVersion. A larger one is stronger.
type Effect int

// The effects, from the weakest.
const (
	// EffectReport lets the pass go on, and is told.
	EffectReport Effect = iota
	// EffectNone is nothing wrong: something is awaited.
	EffectNone
	// EffectFailAfterInterval is something wrong that may pass. It is a failure once it
	// has lasted for 40 minutes.
	EffectFailAfterInterval
	// EffectFail is a failure at once.
	EffectFail
)

// Reasons of an Error.
const (
	ReasonNotFound     = "UpdatePayloadResourceNotFound"
	ReasonConflict     = "UpdatePayloadResourceConflict"
	ReasonClusterDown  = "UpdatePayloadClusterDown"
	ReasonClusterError = "UpdatePayloadClusterError"
	ReasonInvalid      = "UpdatePayloadResourceInvalid"
	ReasonUnauthorized = "UpdatePayloadClusterUnauthorized"
	ReasonForbidden    = "UpdatePayloadResourceForbidden"
	ReasonOverloaded   = "UpdatePayloadClusterOverloaded"
	ReasonTypeMissing  = "UpdatePayloadResourceTypeMissing"
	ReasonFailed       = "UpdatePayloadFailed"

	ReasonWorkloadNotAvailable   = "WorkloadNotAvailable"
	ReasonWorkloadNotProgressing = "WorkloadNotProgressing"

	ReasonOperatorNoVersions   = "ClusterOperatorNoVersions"
	ReasonOperatorNotAvailable = "ClusterOperatorNotAvailable"
	ReasonOperatorDegraded     = "ClusterOperatorDegraded"
	ReasonOperatorUpdating     = "ClusterOperatorUpdating"

	// ReasonMultiple is that of several errors with different reasons.
	ReasonMultiple = "MultipleErrors"
	// ReasonSlowOperator is that of Failing=Unknown.
	ReasonSlowOperator = "SlowClusterOperator"
)

// Error is what keeps a release from being applied.
type Error struct {
	// Reason in one word.
	Reason string
	// Effect says what it means.
	Effect Effect
	// Message for people.
	Message string
	// Names are what it is about: ClusterOperators, sorted, or a workload.
	Names []string
	// Number is that of the manifest, counted from 1. It is 0 for several of them.
	Number int
	// Err is the cause. It may be nil.
	Err error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// taskError says which manifest failed and, as far as it is known, why. Errors that judge a
// state say so themselves.
func taskError(task release.Task, err error) error {
	if judged := (*Error)(nil); errors.As(err, &judged) {
		judged.Number = task.Number
		return judged
	}

	key := task.Manifest.Key()
	reason, cause := classify(err)
	if faulty := (fault{}); errors.As(err, &faulty) {
		cause = faulty.Error()
	}

	message := "Could not update " + taskName(task)
	if cause != "" {
		message += ": " + cause
	}

	return &Error{Reason: reason, Effect: EffectFail, Message: message, Names: []string{objectName(key)}, Number: task.Number, Err: err}
}

// taskName is how a manifest is called in messages.
func taskName(task release.Task) string {
	key := task.Manifest.Key()
	return fmt.Sprintf("%s %q (%d of %d)", strings.ToLower(key.Kind), objectName(key), task.Number, task.Total)
}

func objectName(key release.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// classify returns the reason of an answer of the API server, and its cause in words where
// they help.
func classify(err error) (reason, cause string) {
	switch {
	case isKindMissing(err):
		return ReasonTypeMissing, "the server does not recognize this resource, check extension API servers"
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return ReasonNotFound, "resource may have been deleted"
	case apierrors.IsConflict(err):
		return ReasonConflict, "someone else is updating this resource"
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err):
		return ReasonOverloaded, "the server is overloaded and is not accepting updates"
	case apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsUnexpectedServerError(err), isUnreachable(err):
		return ReasonClusterDown, "the server is down or not responding"
	case apierrors.IsInternalError(err):
		return ReasonClusterError, "the server is reporting an internal error"
	case apierrors.IsInvalid(err):
		return ReasonInvalid, "the object is invalid, possibly due to local cluster configuration"
	case apierrors.IsUnauthorized(err):
		return ReasonUnauthorized, "could not authenticate to the server"
	case apierrors.IsForbidden(err):
		return ReasonForbidden, "the server has forbidden updates to this resource"
	default:
		return ReasonFailed, ""
	}
}

// isUnreachable reports whether there was no answer at all.
func isUnreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}

// isKindMissing reports whether the API server does not serve the kind.
func isKindMissing(err error) bool {
	group := &discovery.ErrGroupDiscoveryFailed{}
	return meta.IsNoMatchError(err) || errors.As(err, &group)
}
