package action

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

func describeCatalog(name string) string   { return fmt.Sprintf("clustercatalog %q", name) }
func describeExtension(name string) string { return fmt.Sprintf("clusterextension %q", name) }

// NewServerError returns an error of the API server with advice for common cases. It
// returns nil for nil.
func NewServerError(object string, err error) error {
	if err == nil {
		return nil
	}

	e := &report.Error{Object: object, Err: err}
	switch {
	case IsUnknownKind(err):
		e.Err = &report.Reworded{Text: "the cluster does not know the kind", Cause: err}
		e.Advice = "install " + findProviderOfKind(err) + ", or choose another cluster with --context"
	case apierrors.IsForbidden(err):
		e.Advice = "ask an administrator of the cluster for the permission, or choose another user with --context"
	case apierrors.IsUnauthorized(err):
		e.Advice = "log in to the cluster again, or choose another user with --context"
	case apierrors.IsInvalid(err):
		e.Advice = "correct the named field; 'kubectl explain' describes the valid values"
	case apierrors.IsNotFound(err):
		e.Advice = "create the missing object first"
	case apierrors.IsConflict(err):
		e.Advice = "another client changed the object at the same time: run the command again"
	}

	return e
}

// findProviderOfKind returns what provides the kind that a cluster does not know, and how to install it.
func findProviderOfKind(err error) string {
	var kind *meta.NoKindMatchError
	var status apierrors.APIStatus
	group := ""
	switch {
	case errors.As(err, &kind):
		group = kind.GroupKind.Group
	case errors.As(err, &status) && status.Status().Details != nil:
		group = status.Status().Details.Group
	}

	if group == operatorsv1.GroupVersion.Group {
		return "OLM Classic with 'mainstay install --with classic'"
	}
	return "Mainstay with 'mainstay install'"
}

// NewNotFoundError returns what NewServerError does, with the advice to run the list command if the
// object does not exist.
func NewNotFoundError(object, list string, err error) error {
	if apierrors.IsNotFound(err) && !IsUnknownKind(err) {
		return &report.Error{Object: object, Err: &report.Reworded{Text: "not found", Cause: err}, Advice: "'" + list + "' shows those that exist"}
	}
	return NewServerError(object, err)
}

// IsUnknownKind reports whether an error says that the cluster does not serve a kind,
// in contrast to a missing object.
func IsUnknownKind(err error) bool {
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
