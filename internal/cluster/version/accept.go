package version

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// appliedRelease is the release that is passed to the worker.
type appliedRelease struct {
	*acceptance.Accepted

	// mode is the mode in which the worker starts to apply the release.
	mode release.Mode
	// isRecorded is true if history already has the release, so that its acceptance is not
	// recorded again.
	isRecorded bool
}

// requestAcceptance requests the acceptance of the target, and sets it as the applied release
// once it is accepted. It returns the state of the acceptance; nil if the target is already
// applied.
func (c *Controller) requestAcceptance(cv *configv1.ClusterVersion, t target, p platformConfig) *acceptance.State {
	if c.applied != nil && t.matchesRelease(c.applied.Release) {
		c.cancelAcceptance()
		return nil
	}

	if c.applied != nil && !hasCompletedUpdate(cv.Status.History) {
		// The installation must complete before any other release is applied.
		c.cancelAcceptance()
		return nil
	}

	own := c.operatorRelease(cv.Status)
	if c.applied == nil {
		t = initialTarget(cv.Status, own, t)
	}

	isOwn, isSettled := t.Image == c.own.Image && own.Image == c.own.Image, t.Image == cv.Status.Desired.Image
	request := acceptance.Request{
		Target: t.Release, Force: t.force, IsOwnRelease: isOwn, AlreadyAccepted: isSettled, Architecture: c.Architecture,
		Load:    release.Options{ReleaseImage: t.Image, ClusterProfile: c.Profile},
		Cluster: p.releaseCluster(t.Version, c.Profile, c.ExcludeIdentifier),
	}
	request.Verifier = c.Trust.Verifier(c.appliedPayload(), p.releaseCluster(c.currentRelease(cv.Status).Version, c.Profile, c.ExcludeIdentifier), cv.Spec.SignatureStores, p.proxy, p.caBundle)
	c.isAwaitingAcceptance = true
	state := c.Acceptor.SetRequest(request)
	if state.Accepted != nil {
		c.setAppliedRelease(cv, state.Accepted, isOwn || isSettled, p)
		c.cancelAcceptance()
	}

	return &state
}

// cancelAcceptance cancels the acceptance of a release that is no longer wanted.
func (c *Controller) cancelAcceptance() {
	if c.isAwaitingAcceptance {
		c.Acceptor.Cancel()
		c.isAwaitingAcceptance = false
	}
}

// initialTarget returns the release that an operator starts with. It is the wanted release if
// that is the operator's own or was accepted before. Otherwise it is the operator's own release
// or, if that is not known, the last one of the cluster.
func initialTarget(status configv1.ClusterVersionStatus, own configv1.Release, wanted target) target {
	switch {
	case wanted.Image == own.Image || wanted.Image == status.Desired.Image:
		return wanted
	case own.Image != "":
		return target{Release: own}
	case status.Desired.Image != "":
		return target{Release: status.Desired}
	}

	return wanted
}

// setAppliedRelease makes an accepted release the one that is applied.
func (c *Controller) setAppliedRelease(cv *configv1.ClusterVersion, accepted *acceptance.Accepted, isKnown bool, p platformConfig) {
	if accepted.Release.Image == c.own.Image {
		c.own = accepted.Release
	}

	if c.applied != nil {
		gates := p.featureGates[c.applied.Release.Version]
		capabilities := release.Capabilities{
			Known: capability.Known(gates), Enabled: capability.EnabledInStatus(cv.Status.Capabilities).Union(capability.Wanted(cv.Spec.Capabilities, gates, c.AlwaysEnable...)),
		}
		before := p.releaseCluster(c.applied.Release.Version, c.Profile, c.ExcludeIdentifier).Select(c.applied.Payload.Manifests)
		after := p.releaseCluster(accepted.Release.Version, c.Profile, c.ExcludeIdentifier).Select(accepted.Payload.Manifests)
		// This operator cannot report an unknown capability, so it leaves it to the next operator.
		c.implicitCapabilities = slices.DeleteFunc(capabilities.ImplicitlyEnabled(before, after), func(name string) bool { return !capabilities.Known.Has(name) })
	}

	if c.OnAccepted != nil {
		c.OnAccepted(accepted.Release.Image, accepted.Payload.Images.Created)
	}

	c.applied = &appliedRelease{Accepted: accepted, mode: modeForRelease(cv.Status.History, accepted.Release), isRecorded: isKnown}
}

// modeForRelease returns the mode in which a release is applied, given the history.
func modeForRelease(history []configv1.UpdateHistory, r configv1.Release) release.Mode {
	switch {
	case !hasCompletedUpdate(history):
		return release.Initializing
	case history[0].State == configv1.CompletedUpdate && history[0].Image == r.Image:
		return release.Reconciling
	}
	return release.Updating
}

func hasCompletedUpdate(history []configv1.UpdateHistory) bool {
	return slices.ContainsFunc(history, func(entry configv1.UpdateHistory) bool { return entry.State == configv1.CompletedUpdate })
}

// operatorRelease returns the release that the operator belongs to. An update does not replace
// an operator that is not part of a release image. Its own release is therefore the current
// release of the cluster.
func (c *Controller) operatorRelease(status configv1.ClusterVersionStatus) configv1.Release {
	if c.Own.Files != nil {
		return c.own
	}
	return c.currentRelease(status)
}

// appliedPayload returns the payload of the applied release; nil if there is none.
func (c *Controller) appliedPayload() *release.Payload {
	if c.applied == nil {
		return nil
	}
	return c.applied.Payload
}

// currentRelease returns the release that was last accepted, as far as it is known.
func (c *Controller) currentRelease(status configv1.ClusterVersionStatus) configv1.Release {
	switch {
	case c.applied != nil:
		return c.applied.Release
	case status.Desired.Image != "":
		return status.Desired
	}
	return c.own
}

// resolveCapabilities returns the capabilities of the cluster for the given enabled feature
// gates.
func (c *Controller) resolveCapabilities(cv *configv1.ClusterVersion, gates sets.Set[string]) capability.Resolved {
	wanted := capability.Wanted(cv.Spec.Capabilities, gates, c.AlwaysEnable...)
	return capability.Resolve(capability.Known(gates), wanted, capability.EnabledInStatus(cv.Status.Capabilities), sets.List(sets.New(c.implicitCapabilities...)))
}
