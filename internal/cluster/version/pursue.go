package version

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// applied is the release that the worker is given.
type applied struct {
	*acceptance.Accepted

	// state is that of the cluster when the release was taken.
	state release.Mode
	// isKnown says that history has it already: how it was accepted is not written again.
	isKnown bool
}

// pursue has the wanted release accepted, and takes it when it was. It gives how the
// judgement is; nil when the cluster is given that release already.
func (c *Controller) pursue(cv *configv1.ClusterVersion, t target, p platform) *acceptance.State {
	if c.applied != nil && t.isAt(c.applied.Release) {
		c.abandon()
		return nil
	}

	if c.applied != nil && !wasComplete(cv.Status.History) {
		// Installation is not done: the first release comes first.
		c.abandon()
		return nil
	}

	own := c.ownRelease(cv.Status)
	if c.applied == nil {
		t = first(cv.Status, own, t)
	}

	isOwn, isSettled := t.Image == c.own.Image && own.Image == c.own.Image, t.Image == cv.Status.Desired.Image
	request := acceptance.Request{
		Target: t.Release, Force: t.force, Local: isOwn, Settled: isSettled, Architecture: c.Architecture,
		Load:    release.Options{ReleaseImage: t.Image, ClusterProfile: c.Profile},
		Cluster: p.cluster(t.Version, c.Profile, c.ExcludeIdentifier),
	}
	request.Verifier = c.Trust.Verifier(c.payload(), p.cluster(c.current(cv.Status).Version, c.Profile, c.ExcludeIdentifier), cv.Spec.SignatureStores, p.proxy, p.trust)
	c.isPursuing = true
	state := c.Acceptor.Want(request)
	if state.Accepted != nil {
		c.take(cv, state.Accepted, isOwn || isSettled, p)
		c.abandon()
	}

	return &state
}

// abandon ends the judgement of a release that is not wanted any more.
func (c *Controller) abandon() {
	if c.isPursuing {
		c.Acceptor.Forget()
		c.isPursuing = false
	}
}

// first returns the release that an operator begins with, before any other: the one that is
// wanted when it is the operator's own or was accepted before, else the one that the
// cluster was at.
func first(status configv1.ClusterVersionStatus, own configv1.Release, wanted target) target {
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

// take makes an accepted release the one that is applied.
func (c *Controller) take(cv *configv1.ClusterVersion, accepted *acceptance.Accepted, isKnown bool, p platform) {
	if accepted.Release.Image == c.own.Image {
		c.own = accepted.Release
	}

	if c.applied != nil {
		gates := p.gates[c.applied.Release.Version]
		had := release.Capabilities{
			Known: capability.Known(gates), Enabled: capability.Had(cv.Status.Capabilities).Union(capability.Wanted(cv.Spec.Capabilities, gates, c.AlwaysEnable...)),
		}
		before := p.cluster(c.applied.Release.Version, c.Profile, c.ExcludeIdentifier).Select(c.applied.Payload.Manifests)
		after := p.cluster(accepted.Release.Version, c.Profile, c.ExcludeIdentifier).Select(accepted.Payload.Manifests)
		// One that this operator does not know cannot be reported, and is left to the next.
		c.needed = slices.DeleteFunc(had.ImplicitlyEnabled(before, after), func(name string) bool { return !had.Known.Has(name) })
	}

	if c.Taken != nil {
		c.Taken(accepted.Release.Image, accepted.Payload.Images.Created)
	}

	c.applied = &applied{Accepted: accepted, state: stateOf(cv.Status.History, accepted.Release), isKnown: isKnown}
}

// stateOf tells why a release is applied.
func stateOf(history []configv1.UpdateHistory, r configv1.Release) release.Mode {
	switch {
	case !wasComplete(history):
		return release.Initializing
	case history[0].State == configv1.CompletedUpdate && history[0].Image == r.Image:
		return release.Reconciling
	}
	return release.Updating
}

func wasComplete(history []configv1.UpdateHistory) bool {
	return slices.ContainsFunc(history, func(entry configv1.UpdateHistory) bool { return entry.State == configv1.CompletedUpdate })
}

// ownRelease is the release that the operator belongs to. One that is part of no release
// image is not replaced by an update: it belongs to whichever release the cluster is at, and
// was only told where to begin.
func (c *Controller) ownRelease(status configv1.ClusterVersionStatus) configv1.Release {
	if c.Own.Files != nil {
		return c.own
	}
	return c.current(status)
}

// payload is that of the applied release; nil before there is one.
func (c *Controller) payload() *release.Payload {
	if c.applied == nil {
		return nil
	}
	return c.applied.Payload
}

// current is the release that was accepted last, as far as it is known.
func (c *Controller) current(status configv1.ClusterVersionStatus) configv1.Release {
	switch {
	case c.applied != nil:
		return c.applied.Release
	case status.Desired.Image != "":
		return status.Desired
	}
	return c.own
}

// capabilities returns those of the cluster, under feature gates that are on.
func (c *Controller) capabilities(cv *configv1.ClusterVersion, gates sets.Set[string]) capability.Resolved {
	wanted := capability.Wanted(cv.Spec.Capabilities, gates, c.AlwaysEnable...)
	return capability.Resolve(capability.Known(gates), wanted, capability.Had(cv.Status.Capabilities), sets.List(sets.New(c.needed...)))
}
