package version

import (
	"context"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// automatic returns the update that a cluster which updates itself asks for next: the highest
// version that is recommended, once the cluster is at the release that it was to be at. It
// gives none while one is under way, or when the spec asks for that release already.
func automatic(cv *configv1.ClusterVersion) (configv1.Release, bool) {
	history := cv.Status.History
	if len(history) == 0 || history[0].State != configv1.CompletedUpdate || history[0].Image != cv.Status.Desired.Image {
		return configv1.Release{}, false
	}
	if wanted := cv.Spec.DesiredUpdate; wanted != nil && wanted.Image != "" && wanted.Image != cv.Status.Desired.Image {
		return configv1.Release{}, false // Somebody asks for another one.
	}

	versionOf := func(r configv1.Release) semver.Version {
		v, err := semver.Parse(r.Version)
		if err != nil {
			return semver.Version{} // It is below every one that can be read.
		}
		return v
	}

	current := versionOf(cv.Status.Desired)
	higher := slices.DeleteFunc(slices.Clone(cv.Status.AvailableUpdates), func(r configv1.Release) bool {
		return r.Image == "" || !versionOf(r).GT(current)
	})
	if len(higher) == 0 {
		return configv1.Release{}, false
	}

	return slices.MaxFunc(higher, func(a, b configv1.Release) int { return versionOf(a).Compare(versionOf(b)) }), true
}

// askForNext has the spec ask for the next update, when that is to be done without a person.
func (c *Controller) askForNext(ctx context.Context, cv *configv1.ClusterVersion) error {
	next, ok := automatic(cv)
	if !c.AutoUpdate || !ok {
		return nil
	}

	before := cv.DeepCopy()
	asks := cv.DeepCopy()
	asks.Spec.DesiredUpdate = &configv1.Update{Version: next.Version, Image: next.Image}
	if cv.Spec.DesiredUpdate != nil {
		asks.Spec.DesiredUpdate.AcceptRisks = cv.Spec.DesiredUpdate.AcceptRisks
	}
	if err := c.client.Patch(ctx, asks, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("asking for the update to %s: %w", next.Version, err)
	}

	log.FromContext(ctx).Info("The cluster asks for the next update by itself", "version", next.Version, "image", next.Image)
	return nil
}
