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

// nextAutomaticUpdate returns the next update of a cluster with automatic updates: the highest
// available version, once the current release was completed. It returns false while an update is
// in progress, or if the spec requests another release.
func nextAutomaticUpdate(cv *configv1.ClusterVersion) (configv1.Release, bool) {
	history := cv.Status.History
	if len(history) == 0 || history[0].State != configv1.CompletedUpdate || history[0].Image != cv.Status.Desired.Image {
		return configv1.Release{}, false
	}
	if wanted := cv.Spec.DesiredUpdate; wanted != nil && wanted.Image != "" && wanted.Image != cv.Status.Desired.Image {
		return configv1.Release{}, false // The spec requests another release.
	}

	versionOf := func(r configv1.Release) semver.Version {
		v, err := semver.Parse(r.Version)
		if err != nil {
			return semver.Version{} // It is lower than every valid version.
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

// automaticUpdate returns the request for the next update of a cluster with automatic updates; nil
// if there is none. It keeps the risks that the spec accepts.
func automaticUpdate(cv *configv1.ClusterVersion) *configv1.Update {
	next, ok := nextAutomaticUpdate(cv)
	if !ok {
		return nil
	}

	update := &configv1.Update{Version: next.Version, Image: next.Image}
	if cv.Spec.DesiredUpdate != nil {
		update.AcceptRisks = cv.Spec.DesiredUpdate.AcceptRisks
	}
	return update
}

// requestNextUpdate sets spec.desiredUpdate to the update that was decided on.
func (c *Controller) requestNextUpdate(ctx context.Context, d *decision) error {
	if d.nextUpdate == nil {
		return nil
	}

	changed := d.after.DeepCopy()
	changed.Spec.DesiredUpdate = d.nextUpdate
	if err := c.client.Patch(ctx, changed, client.MergeFrom(d.after)); err != nil {
		return fmt.Errorf("requesting the update to %s: %w", d.nextUpdate.Version, err)
	}

	log.FromContext(ctx).Info("Requested the next update automatically", "version", d.nextUpdate.Version, "image", d.nextUpdate.Image)
	return nil
}
