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

// Effect is what an Error means for the pass and for the conditions of the ClusterVersion.
// Larger values are stronger.
type Effect int

// The effects, weakest first.
const (
	// EffectReport reports the error and lets the pass continue.
	EffectReport Effect = iota
	// EffectNone means that nothing is wrong: the pass waits for something.
	EffectNone
	// EffectFailAfterInterval is a problem that may be transient. It is a failure once it has
	// lasted for 40 minutes.
	EffectFailAfterInterval
	// EffectFail is an immediate failure.
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

	// ReasonMultiple is the reason of several errors with different reasons.
	ReasonMultiple = "MultipleErrors"
	// ReasonSlowOperator is the reason of Failing=Unknown.
	ReasonSlowOperator = "SlowClusterOperator"
)

// Error is a problem that keeps a release from being applied.
type Error struct {
	// Reason is a CamelCase reason for conditions.
	Reason string
	// Effect is what the error means for the pass and the conditions.
	Effect Effect
	// Message is a text for administrators.
	Message string
	// Names are the sorted ClusterOperators or the workload that the error is about.
	Names []string
	// Number is the number of the manifest, counted from 1. It is 0 if the error is about several
	// manifests.
	Number int
	// Err is the cause. It may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// newTaskError wraps an error with the manifest that failed and, if known, the reason. An *Error
// is returned with its number set.
func newTaskError(task release.Task, err error) error {
	if judged := (*Error)(nil); errors.As(err, &judged) {
		judged.Number = task.Number
		return judged
	}

	key := task.Manifest.Key()
	reason, cause := classifyAPIError(err)
	if faulty := (manifestError{}); errors.As(err, &faulty) {
		cause = faulty.Error()
	}

	message := "Could not update " + describeTask(task)
	if cause != "" {
		message += ": " + cause
	}

	return &Error{Reason: reason, Effect: EffectFail, Message: message, Names: []string{namespacedName(key)}, Number: task.Number, Err: err}
}

// describeTask returns the kind, name and number of a manifest for messages.
func describeTask(task release.Task) string {
	key := task.Manifest.Key()
	return fmt.Sprintf("%s %q (%d of %d)", strings.ToLower(key.Kind), namespacedName(key), task.Number, task.Total)
}

func namespacedName(key release.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// classifyAPIError returns the reason for an error of the API server, and a text about the cause
// if there is one.
func classifyAPIError(err error) (reason, cause string) {
	switch {
	case isKindNotServed(err):
		return ReasonTypeMissing, "the server does not recognize this resource, check extension API servers"
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return ReasonNotFound, "resource may have been deleted"
	case apierrors.IsConflict(err):
		return ReasonConflict, "someone else is updating this resource"
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err):
		return ReasonOverloaded, "the server is overloaded and is not accepting updates"
	case apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsUnexpectedServerError(err), isServerUnreachable(err):
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

// isServerUnreachable reports whether the API server did not answer.
func isServerUnreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}

// isKindNotServed reports whether the API server does not serve the kind.
func isKindNotServed(err error) bool {
	group := &discovery.ErrGroupDiscoveryFailed{}
	return meta.IsNoMatchError(err) || errors.As(err, &group)
}
