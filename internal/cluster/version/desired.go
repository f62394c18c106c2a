package version

import (
	"strings"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// target is a release that is to be applied.
type target struct {
	configv1.Release

	// force takes it though verification or preconditions fail.
	force bool
}

// isAt reports whether a release is the one that is asked for. A pull spec is compared as a
// whole: the same content from elsewhere is another target.
func (t target) isAt(r configv1.Release) bool {
	return t.Image == r.Image && (t.Version == "" || t.Version == r.Version)
}

// wanted returns the release that a spec asks for; valid is the ClusterVersion without the
// faults of its spec. own is the release that the running operator belongs to, current the
// one that was accepted last.
//
// Nothing asked for, or risks accepted alone, means the operator's own: after an update was cleared, that is the
// release of whichever operator runs by then. A version without an image is looked for in
// the available updates alone; one that is not there leaves the cluster where it is, as one
// that the cluster is at already does, and one that is invalid.
func wanted(cv, valid *configv1.ClusterVersion, own, current configv1.Release) target {
	update := valid.Spec.DesiredUpdate
	switch {
	case update == nil && cv.Spec.DesiredUpdate != nil:
		return target{Release: current}
	case update == nil, namesNoRelease(update):
		return target{Release: own}
	case update.Image != "":
		return target{Release: fill(valid, configv1.Release{Version: update.Version, Image: update.Image}, own, current), force: update.Force}
	}

	isMulti := update.Architecture == configv1.ClusterVersionArchitectureMulti
	if update.Version == current.Version && (!isMulti || current.Architecture == configv1.ClusterVersionArchitectureMulti) {
		return target{Release: current, force: update.Force}
	}
	if releases := offered(valid, *update); len(releases) == 1 {
		return target{Release: releases[0], force: update.Force}
	}

	return target{Release: current}
}

// fill adds to a release what is known of it by its image. What the spec says of it stays.
func fill(cv *configv1.ClusterVersion, wanted configv1.Release, known ...configv1.Release) configv1.Release {
	known = append(known, cv.Status.AvailableUpdates...)
	for _, update := range cv.Status.ConditionalUpdates {
		known = append(known, update.Release)
	}

	for _, release := range known {
		if release.Image == wanted.Image && (wanted.Version == "" || wanted.Version == release.Version) {
			return release
		}
	}
	return wanted
}

// merged adds to a release what the update service says of it.
func merged(r configv1.Release, told *configv1.Release) configv1.Release {
	if told == nil || digestOf(told.Image) != digestOf(r.Image) {
		return r
	}
	if r.URL == "" {
		r.URL = told.URL
	}
	if len(told.Channels) > 0 {
		r.Channels = told.Channels
	}
	if r.Architecture == "" {
		r.Architecture = told.Architecture
	}

	return r
}

// digestOf returns the digest of a pull spec, or all of one without: the same release may be
// known by several places.
func digestOf(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	return image
}
