package action

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

func catalogName(name string) string   { return fmt.Sprintf("clustercatalog %q", name) }
func extensionName(name string) string { return fmt.Sprintf("clusterextension %q", name) }

// serverError turns an answer of the API server into an Error with advice for the
// common cases. It gives nil for nil.
func serverError(object string, err error) error {
	if err == nil {
		return nil
	}
	e := &report.Error{Object: object, Err: err}
	switch {
	case unknownKind(err):
		e.Err = &report.Reworded{Text: "the cluster does not know the kind", Cause: err}
		e.Advice = "install Mainstay with 'mainstay install', or choose another cluster with --context"
	case apierrors.IsForbidden(err):
		e.Advice = "ask an administrator of the cluster for the right, or choose another user with --context"
	case apierrors.IsUnauthorized(err):
		e.Advice = "log in to the cluster again, or choose another user with --context"
	case apierrors.IsInvalid(err):
		e.Advice = "correct the named field; 'kubectl explain' tells what it may be"
	case apierrors.IsNotFound(err):
		e.Advice = "create what is not found first"
	case apierrors.IsConflict(err):
		e.Advice = "somebody else changed the object at the same time: run the command again"
	}
	return e
}

// unknownKind tells whether an error says that the cluster does not serve a kind, and not
// that an object is missing.
func unknownKind(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// adviceFor says what to do about an extension or catalog that reports a reason and a
// message. It is empty when there is nothing better than to read the message.
func adviceFor(name, reason, message string) string {
	status := "see 'mainstay extension status " + name + "'"
	switch {
	case strings.Contains(message, "pre-authorization failed"):
		return "give the service account the listed permissions, or install without --service-account"
	case strings.Contains(message, "multiple catalogs with the same priority"):
		return "choose a catalog with --catalog-selector, or give one a higher priority"
	case strings.Contains(message, "no bundles found"):
		return "check package, version and channels against the catalogs of 'mainstay catalog list'; to step outside the catalog's upgrade edges use --self-certified"
	case strings.Contains(message, "upgrade safety validation"):
		return "the update would change a CRD in a way that can lose data: choose another version, or set spec.install.preflight.crdUpgradeSafety.enforcement to None"
	case strings.Contains(message, "ServiceAccount"):
		return "create the service account in the extension's namespace"
	case reason == olmv1.ReasonInvalidConfiguration:
		return "correct spec.config of the extension as the message says"
	case reason == olmv1.ReasonProgressDeadlineExceeded:
		return status + " for the object that is not ready, and look at its pods and events"
	case reason == olmv1.ReasonBlocked:
		return "change what the message names; " + status
	}
	return status
}
