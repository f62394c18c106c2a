package apply

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Cause says, for programs, why an object could not be written or removed. Every
// cause may go away by itself or by a person's act on the cluster; none is final.
type Cause string

const (
	// CauseCollision: the object exists and may not be managed.
	CauseCollision Cause = "Collision"
	// CauseNamespaceMissing: its namespace does not exist.
	CauseNamespaceMissing Cause = "NamespaceMissing"
	// CauseNamespaceTerminating: its namespace is being deleted.
	CauseNamespaceTerminating Cause = "NamespaceTerminating"
	// CauseKindMissing: the API server does not serve its kind.
	CauseKindMissing Cause = "KindMissing"
	// CauseWebhookFailed: an admission webhook could not be asked.
	CauseWebhookFailed Cause = "WebhookFailed"
	// CauseForbidden: the account lacks a right.
	CauseForbidden Cause = "Forbidden"
	// CauseDenied: admission refused the object.
	CauseDenied Cause = "Denied"
	// CauseInvalid: the API server says that the object is not valid.
	CauseInvalid Cause = "Invalid"
	// CauseContended: others changed the object again and again meanwhile.
	CauseContended Cause = "Contended"
	// CauseOther is any other failure, such as a connection that broke.
	CauseOther Cause = "Other"
)

// Error is the failure to write or remove one object.
type Error struct {
	Object Key
	Cause  Cause

	text string
	err  error
}

// Error names the object, says what failed and, where that is known, what to do.
func (e *Error) Error() string { return e.text }

// Unwrap returns the API server's error; nil for a collision, which is our own finding.
func (e *Error) Unwrap() error { return e.err }

// newError classifies what the API server answered.
func newError(key Key, err error) *Error {
	cause, advice := classify(key, err)
	text := fmt.Sprintf("%s: %s", key, oneLine(err.Error()))
	if cause == CauseKindMissing {
		// What discovery says of it is long, and names no kind.
		text = fmt.Sprintf("%s: the API server does not serve the kind %s", key, key.GroupKind)
	}
	if advice != "" {
		text += ": " + advice
	}

	return &Error{Object: key, Cause: cause, text: text, err: err}
}

// classify returns the cause of an API error, and what to do about it.
//
// Admission webhooks and RBAC have no machine-readable mark in the API server's
// answers, only its fixed wording.
func classify(key Key, err error) (Cause, string) {
	message := err.Error()
	switch {
	case apierrors.IsNotFound(err) && isAboutNamespace(err):
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
		return CauseInvalid, "delete the object to have it made anew"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), strings.Contains(message, "failed to create typed patch object"):
		return CauseInvalid, "the manifest must be corrected"
	case apierrors.IsConflict(err):
		return CauseContended, ""
	default:
		return CauseOther, ""
	}
}

// isAboutNamespace tells a missing namespace from a missing kind: both are 404.
func isAboutNamespace(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name != ""
}

// oneLine makes an API server's message fit into a sentence.
func oneLine(message string) string {
	return strings.Join(strings.Fields(message), " ")
}

// invalid is a manifest that is refused before the API server is asked.
func invalid(key Key, problem string) *Error {
	return &Error{Object: key, Cause: CauseInvalid, text: fmt.Sprintf("%s: %s", key, problem)}
}

// collision says that an object exists, who owns it, and how to go on. The first
// part of the message is what scripts look for.
func collision(key Key, owner, advice string) *Error {
	return &Error{Object: key, Cause: CauseCollision, text: fmt.Sprintf(
		"%s '%s' already exists in namespace '%s' and cannot be managed by operator-controller: it is %s; %s",
		key.Kind, key.Name, key.Namespace, owner, advice)}
}
