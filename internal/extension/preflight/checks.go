package preflight

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Change is what is about to become of the objects of an extension.
type Change struct {
	// Written are all objects of the new revision.
	Written []unstructured.Unstructured
	// Removed are the objects that only revisions before it have: they go when it is
	// complete.
	Removed []unstructured.Unstructured
}

// Check says what stands against a change; nil if nothing does. The message of the error
// is for who has to act.
type Check func(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error

// Checks are made one after another.
type Checks []Check

// Check makes every check, so that all that stands against the change is told at once:
// the error joins theirs, one below the other.
func (c Checks) Check(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error {
	var errs []error
	for _, check := range c {
		errs = append(errs, check(ctx, ext, change))
	}
	return errors.Join(errs...)
}

// CheckExtension is the Check of the permissions of the account that an extension names.
func (c *Checker) CheckExtension(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error {
	if ext.Spec.ServiceAccount == nil {
		return nil
	}
	account := types.NamespacedName{Namespace: ext.Spec.Namespace, Name: ext.Spec.ServiceAccount.Name}
	return c.check(ctx, account, ext.Name, change)
}
