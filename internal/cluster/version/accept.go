package version

import (
	"slices"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// releases are the releases that the operator knows.
type releases struct {
	// own is the release that the operator belongs to. If the operator does not run in its image,
	// the metadata of the release are known once it was accepted.
	own configv1.Release
	// isInImage is true if the operator runs in the image of its own release.
	isInImage bool
	// applied is the accepted release; nil if there is none.
	applied *appliedRelease
}

// appliedRelease is the release that is passed to the worker.
type appliedRelease struct {
	*acceptance.Accepted

	// mode is the mode in which the worker starts to apply the release.
	mode release.Mode
	// isRecorded is true if history already has the release, so that its acceptance is not
	// recorded again.
	isRecorded bool
	// implicitCapabilities are the capabilities that the release enabled implicitly. They are
	// those of the change from the release before it, whose content is not kept.
	implicitCapabilities []string
}

// operatorRelease returns the release that the operator belongs to. An update does not replace
// an operator that is not part of a release image. Its own release is therefore the current
// release of the cluster.
func (r releases) operatorRelease(status configv1.ClusterVersionStatus) configv1.Release {
	if r.isInImage {
		return r.own
	}
	return r.currentRelease(status)
}

// currentRelease returns the release that was last accepted, as far as it is known.
func (r releases) currentRelease(status configv1.ClusterVersionStatus) configv1.Release {
	switch {
	case r.applied != nil:
		return r.applied.Release
	case status.Desired.Image != "":
		return status.Desired
	}
	return r.own
}

// appliedPayload returns the payload of the applied release; nil if there is none.
func (r releases) appliedPayload() *release.Payload {
	if r.applied == nil {
		return nil
	}
	return r.applied.Payload
}

// acceptanceRequest returns the request for the acceptance of the planned target, without a
// verifier.
func acceptanceRequest(f *facts, s Settings) acceptance.Request {
	t := f.plan.target
	return acceptance.Request{
		Target: t.Release, Force: t.force, IsOwnRelease: isOwnTarget(f), AlreadyAccepted: isSettledTarget(f), Architecture: s.Architecture,
		Load:    release.Options{ReleaseImage: t.Image, ClusterProfile: s.Profile},
		Cluster: s.selectCluster(f.platform, t.Version),
	}
}

// isOwnTarget reports whether the target is the release of the operator.
func isOwnTarget(f *facts) bool {
	known, image := f.memory.releases, f.plan.target.Image
	return image == known.own.Image && known.operatorRelease(f.plan.valid.Status).Image == known.own.Image
}

// isSettledTarget reports whether the target was accepted before.
func isSettledTarget(f *facts) bool { return f.plan.target.Image == f.plan.valid.Status.Desired.Image }

// acceptRelease returns the releases after a pass: an accepted target becomes the applied release.
func acceptRelease(f *facts, s Settings) releases {
	next := f.memory.releases
	if f.acceptance == nil || f.acceptance.Accepted == nil {
		return next
	}

	accepted, cv := f.acceptance.Accepted, f.plan.valid
	if accepted.Release.Image == next.own.Image {
		next.own = accepted.Release
	}

	next.applied = &appliedRelease{
		Accepted: accepted, mode: modeForRelease(cv.Status.History, accepted.Release), isRecorded: isOwnTarget(f) || isSettledTarget(f),
		implicitCapabilities: implicitCapabilities(f, s, accepted),
	}

	return next
}

// implicitCapabilities returns the capabilities that an accepted release enables implicitly in a
// cluster with another release.
func implicitCapabilities(f *facts, s Settings, accepted *acceptance.Accepted) []string {
	former, cv := f.memory.releases.applied, f.plan.valid
	if former == nil {
		return nil
	}

	gates := f.platform.featureGates[former.Release.Version]
	capabilities := release.Capabilities{
		Known: capability.Known(gates), Enabled: capability.EnabledInStatus(cv.Status.Capabilities).Union(capability.Wanted(cv.Spec.Capabilities, gates, s.AlwaysEnable...)),
	}
	before := s.selectCluster(f.platform, former.Release.Version).Select(former.Payload.Manifests)
	after := s.selectCluster(f.platform, accepted.Release.Version).Select(accepted.Payload.Manifests)
	// This operator cannot report an unknown capability, so it leaves it to the next operator.
	return slices.DeleteFunc(capabilities.ImplicitlyEnabled(before, after), func(name string) bool { return !capabilities.Known.Has(name) })
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
