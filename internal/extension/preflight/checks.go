package preflight

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Change is a planned change of the objects of an extension.
type Change struct {
	// Written are all objects of the new revision.
	Written []unstructured.Unstructured
	// Removed are the objects that only earlier revisions have. They are removed when the new
	// revision is complete.
	Removed []unstructured.Unstructured
}

// Check returns an error that reports every problem with a change, or nil. The message is for the
// person who must act.
type Check func(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error

// Checks are run in sequence.
type Checks []Check

// Check runs every check, so that all problems are reported at once. The error joins their errors.
func (c Checks) Check(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error {
	var errs []error
	for _, check := range c {
		errs = append(errs, check(ctx, ext, change))
	}
	return errors.Join(errs...)
}

// CheckExtension checks the permissions of the service account that an extension names. It is a
// Check.
func (c *Checker) CheckExtension(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error {
	if ext.Spec.ServiceAccount == nil {
		return nil
	}
	account := types.NamespacedName{Namespace: ext.Spec.Namespace, Name: ext.Spec.ServiceAccount.Name}
	return c.checkPermissions(ctx, account, ext.Name, change)
}
