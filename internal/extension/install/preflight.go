package install

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// preflightRunner runs the preflight checks of a change.
type preflightRunner struct {
	// checks may be nil. Then nothing is checked.
	checks    Preflight
	revisions *revisionReader
}

// runChecks checks the objects that would be written and removed. Failed checks are retried
// periodically, because their causes are outside of the extension. CRD upgrade safety is retried
// less often: this controller notices the changes that would resolve it.
func (r *preflightRunner) runChecks(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions, objects []unstructured.Unstructured) error {
	if r.checks == nil {
		return nil
	}

	removed, err := r.revisions.listRemovedObjects(ctx, revs, objects)
	if err != nil {
		return err
	}

	err = r.checks.Check(ctx, ext, preflight.Change{Written: objects, Removed: removed})
	var unsafe *crdsafety.UnsafeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsafe):
		return reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, err)
	default:
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, err)
	}
}
