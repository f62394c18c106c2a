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

// Purposes of retrievals. A plan may need another image than the extension itself. Neither
// cancels the other.
const (
	retrieveForRevision = "revision"
	retrieveForPlan     = "plan"
)

// retrieveBundle returns the content of a bundle image. While the image is being pulled it returns
// an error that wraps pull.ErrRetrieving, and the extension is enqueued at the end of the pull.
// Without a manager it waits for the registry, because nothing would enqueue the extension.
func (a *attempt) retrieveBundle(ctx context.Context, ext *olmv1.ClusterExtension, image string) (*BundleImage, error) {
	open := func(ctx context.Context) (*BundleImage, error) { return a.Bundles.Open(ctx, image) }
	if a.retrievals == nil {
		return open(ctx)
	}

	purpose := retrieveForRevision
	if a.dryRun != nil {
		purpose = retrieveForPlan
	}

	a.requestedRetrievals[purpose] = true
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

	a.pendingRetrieval = reconcile.Wait(olmv1.ReasonRollingOut, 0, fmt.Errorf("pulling image %s: %w", image, pull.ErrRetrieving))
	return nil, a.pendingRetrieval
}

// cancelUnrequestedRetrievals cancels the retrievals that this attempt did not request. They are
// obsolete since the spec or the catalogs changed, or the extension is being deleted.
func (a *attempt) cancelUnrequestedRetrievals(name string) {
	if a.retrievals == nil {
		return
	}

	for _, purpose := range []string{retrieveForRevision, retrieveForPlan} {
		if !a.requestedRetrievals[purpose] {
			a.retrievals.Cancel(name, purpose)
		}
	}
}

// reportOutcome writes the outcome of an attempt to the status. While a bundle is being pulled,
// the failure of the previous attempt is kept, because it is more useful.
func (a *attempt) reportOutcome(ext *olmv1.ClusterExtension, err error) {
	known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing).DeepCopy()
	keeps := errors.Is(err, pull.ErrRetrieving) && known != nil && known.ObservedGeneration == ext.Generation &&
		known.Reason != olmv1.ReasonSucceeded && known.Reason != olmv1.ReasonRollingOut
	reportStatus(ext, a.revisions, a.revisionsLoaded, err)
	if keeps {
		setCondition(ext, *known)
	}
}
