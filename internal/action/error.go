package action

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

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
		e.Advice = "ask an administrator of the cluster for the permission, or choose another user with --context"
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

// unknownKind reports whether an error says that the cluster does not serve a kind, and not
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
