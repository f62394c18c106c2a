package apply

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Cause is a machine-readable cause why an object could not be written or removed. Every cause may
// disappear by itself or by a change on the cluster. None is final.
type Cause string

const (
	// CauseCollision means that the object exists and may not be managed.
	CauseCollision Cause = "Collision"
	// CauseNamespaceMissing means that its namespace does not exist.
	CauseNamespaceMissing Cause = "NamespaceMissing"
	// CauseNamespaceTerminating means that its namespace is being deleted.
	CauseNamespaceTerminating Cause = "NamespaceTerminating"
	// CauseKindMissing means that the API server does not serve its kind.
	CauseKindMissing Cause = "KindMissing"
	// CauseWebhookFailed means that an admission webhook could not be called.
	CauseWebhookFailed Cause = "WebhookFailed"
	// CauseForbidden means that the account lacks a right.
	CauseForbidden Cause = "Forbidden"
	// CauseDenied means that admission denied the object.
	CauseDenied Cause = "Denied"
	// CauseInvalid means that the API server rejected the object as invalid.
	CauseInvalid Cause = "Invalid"
	// CauseContended means that other clients kept changing the object.
	CauseContended Cause = "Contended"
	// CauseOther is any other failure, such as a broken connection.
	CauseOther Cause = "Other"
)

// Error is the failure to write or remove one object.
type Error struct {
	Object Key
	Cause  Cause

	text string
	err  error
}

// Error returns the object, what failed and, if known, how to resolve it.
func (e *Error) Error() string { return e.text }

// Unwrap returns the API server's error. It is nil for a collision, which this package detects.
func (e *Error) Unwrap() error { return e.err }

// newObjectError classifies an error of the API server.
func newObjectError(key Key, err error) *Error {
	cause, advice := classifyError(key, err)
	text := fmt.Sprintf("%s: %s", key, collapseWhitespace(err.Error()))
	if cause == CauseKindMissing {
		// The message of discovery is long, and does not name the kind.
		text = fmt.Sprintf("%s: the API server does not serve the kind %s", key, key.GroupKind)
	}
	if advice != "" {
		text += ": " + advice
	}

	return &Error{Object: key, Cause: cause, text: text, err: err}
}

// classifyError returns the cause of an API error, and advice how to resolve it.
//
// For admission webhooks and RBAC the API server has no machine-readable cause, only fixed
// wording.
func classifyError(key Key, err error) (Cause, string) {
	message := err.Error()
	switch {
	case apierrors.IsNotFound(err) && isNamespaceNotFound(err):
		return CauseNamespaceMissing, fmt.Sprintf("create the namespace %q", key.Namespace)
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return CauseKindMissing, "install what defines it"
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return CauseNamespaceTerminating, fmt.Sprintf("wait until the namespace %q is gone, then create it again", key.Namespace)
	case strings.Contains(message, "failed calling webhook"):
		return CauseWebhookFailed, "see that the webhook's service runs, or remove its configuration"
	case strings.Contains(message, "admission webhook"):
		return CauseDenied, ""
	case strings.Contains(message, "attempting to grant RBAC permissions not currently held"):
		return CauseForbidden, "give the account these permissions, or the verbs bind and escalate on roles"
	case apierrors.IsForbidden(err) && strings.Contains(message, " cannot "):
		return CauseForbidden, "give the account this right"
	case apierrors.IsForbidden(err):
		return CauseDenied, ""
	case apierrors.IsUnauthorized(err):
		return CauseForbidden, "see that the account still exists"
	case apierrors.IsInvalid(err) && strings.Contains(message, "immutable"):
		return CauseInvalid, "delete the object to have it recreated"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), strings.Contains(message, "failed to create typed patch object"):
		return CauseInvalid, "the manifest must be corrected"
	case apierrors.IsConflict(err):
		return CauseContended, ""
	default:
		return CauseOther, ""
	}
}

// isNamespaceNotFound reports whether a 404 is about a missing namespace. A missing kind is a 404
// too.
func isNamespaceNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name != ""
}

// collapseWhitespace puts an API server's message on one line.
func collapseWhitespace(message string) string {
	return strings.Join(strings.Fields(message), " ")
}

// newInvalidError returns the error for a manifest that is refused without a request.
func newInvalidError(key Key, problem string) *Error {
	return &Error{Object: key, Cause: CauseInvalid, text: fmt.Sprintf("%s: %s", key, problem)}
}

// newCollisionError returns the error for an object that exists: its owner, and how to resolve the
// collision. Scripts match the first part of the message.
func newCollisionError(key Key, owner, advice string) *Error {
	return &Error{Object: key, Cause: CauseCollision, text: fmt.Sprintf(
		"%s '%s' already exists in namespace '%s' and cannot be managed by operator-controller: it is %s; %s",
		key.Kind, key.Name, key.Namespace, owner, advice)}
}
