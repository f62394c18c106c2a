package install

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// The purposes of retrievals: a plan may need another image than the extension itself, and
// neither cancels the other.
const (
	retrieveForRevision = "revision"
	retrieveForPlan     = "plan"
)

// retrieveBundle returns the content of a bundle image. While it is being pulled it returns
// an error that wraps pull.ErrRetrieving, and the extension is enqueued when that has ended.
// A controller without a manager, which nothing enqueues, waits for the registry.
func (a *attempt) retrieveBundle(ctx context.Context, ext *olmv1.ClusterExtension, image string) (*BundleImage, error) {
	open := func(ctx context.Context) (*BundleImage, error) { return a.Bundles.Open(ctx, image) }
	if a.retrievals == nil {
		return open(ctx)
	}

	purpose := retrieveForRevision
	if a.planned != nil {
		purpose = retrieveForPlan
	}

	a.retrieved[purpose] = true
	request := fmt.Sprintf("%s %d %s", ext.UID, ext.Generation, image)
	found, state, err := a.retrievals.Take(ext.Name, purpose, request)
	switch state {
	case pull.Ended:
		return found, err
	case pull.None:
		a.retrievals.Start(ctx, pull.Retrieval[*BundleImage]{
			Name: ext.Name, Purpose: purpose, Request: request, Reference: image, Run: open,
		})
	case pull.Running:
	}

	a.awaited = reconcile.Wait(olmv1.ReasonRollingOut, 0, fmt.Errorf("pulling image %s: %w", image, pull.ErrRetrieving))
	return nil, a.awaited
}

// cancelRetrievals cancels the retrievals that this attempt did not ask for: the spec or the
// catalogs have changed, or the extension is being deleted.
func (a *attempt) cancelRetrievals(name string) {
	if a.retrievals == nil {
		return
	}

	for _, purpose := range []string{retrieveForRevision, retrieveForPlan} {
		if !a.retrieved[purpose] {
			a.retrievals.Cancel(name, purpose)
		}
	}
}

// reportAttempt writes the outcome of an attempt into the status. While a bundle is pulled,
// the reason why the attempt before failed stays: it is worth more to a person.
func (a *attempt) reportAttempt(ext *olmv1.ClusterExtension, err error) {
	known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing).DeepCopy()
	keeps := errors.Is(err, pull.ErrRetrieving) && known != nil && known.ObservedGeneration == ext.Generation &&
		known.Reason != olmv1.ReasonSucceeded && known.Reason != olmv1.ReasonRollingOut
	report(ext, a.revs, a.observed, err)
	if keeps {
		setCondition(ext, *known)
	}
}
