package install

import (
	"context"
	"fmt"

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

// bundleRetriever retrieves the bundle images of one extension in one pass.
type bundleRetriever struct {
	bundles BundleOpener
	// retrievals pull bundles outside of the workers. It is nil without a manager.
	retrievals *pull.Retrievals[*BundleImage]
	// requested are the purposes for which an image was requested.
	requested map[string]bool
}

// retrieveBundle returns the content of a bundle image. While the image is being pulled it returns
// an error that wraps pull.ErrRetrieving, and the extension is enqueued at the end of the pull.
// Without a manager it waits for the registry, because nothing would enqueue the extension.
func (r *bundleRetriever) retrieveBundle(ctx context.Context, ext *olmv1.ClusterExtension, purpose, image string) (*BundleImage, error) {
	open := func(ctx context.Context) (*BundleImage, error) { return r.bundles.Open(ctx, image) }
	if r.retrievals == nil {
		return open(ctx)
	}

	r.requested[purpose] = true
	request := fmt.Sprintf("%s %d %s", ext.UID, ext.Generation, image)
	found, state, err := r.retrievals.Take(ext.Name, purpose, request)
	switch state {
	case pull.Ended:
		return found, err
	case pull.None:
		r.retrievals.Start(ctx, pull.Retrieval[*BundleImage]{
			Name: ext.Name, Purpose: purpose, Request: request, Reference: image, Run: open,
		})
	case pull.Running:
	}

	return nil, reconcile.Wait(olmv1.ReasonRollingOut, 0, fmt.Errorf("pulling image %s: %w", image, pull.ErrRetrieving))
}

// cancelUnrequested cancels the retrievals of an extension that were not requested in this pass.
// They are obsolete since the spec or the catalogs changed, or the extension is being deleted.
func (r *bundleRetriever) cancelUnrequested(extension string) {
	if r.retrievals == nil {
		return
	}

	for _, purpose := range []string{retrieveForRevision, retrieveForPlan} {
		if !r.requested[purpose] {
			r.retrievals.Cancel(extension, purpose)
		}
	}
}
