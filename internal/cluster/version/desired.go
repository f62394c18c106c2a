package version

import (
	"strings"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// target is a release that should be applied.
type target struct {
	configv1.Release

	// force accepts the release even if verification or preconditions fail.
	force bool
}

// matchesRelease reports whether r is the requested release. Pull specs are compared as a whole:
// the same content in another repository is another target.
func (t target) matchesRelease(r configv1.Release) bool {
	return t.Image == r.Image && (t.Version == "" || t.Version == r.Version)
}

// desiredTarget returns the release that a spec requests. valid is the ClusterVersion without
// the invalid fields of its spec. own is the release of the running operator, and current is the
// release that was last accepted.
//
// A spec that names no release requests the operator's own release: after an update was cleared,
// this is the release of the operator that runs then. A version without an image must be an
// available update. If it is none, if the cluster is already at that version, or if the update
// is invalid, the current release stays.
func desiredTarget(cv, valid *configv1.ClusterVersion, own, current configv1.Release) target {
	update := valid.Spec.DesiredUpdate
	switch {
	case update == nil && cv.Spec.DesiredUpdate != nil:
		return target{Release: current}
	case update == nil, namesNoRelease(update):
		return target{Release: own}
	case update.Image != "":
		return target{Release: fillFromKnownReleases(valid, configv1.Release{Version: update.Version, Image: update.Image}, own, current), force: update.Force}
	}

	isMulti := update.Architecture == configv1.ClusterVersionArchitectureMulti
	if update.Version == current.Version && (!isMulti || current.Architecture == configv1.ClusterVersionArchitectureMulti) {
		return target{Release: current, force: update.Force}
	}
	if releases := matchingUpdates(valid, *update); len(releases) == 1 {
		return target{Release: releases[0], force: update.Force}
	}

	return target{Release: current}
}

// fillFromKnownReleases returns the known release with the same image, and wanted itself if
// there is none.
func fillFromKnownReleases(cv *configv1.ClusterVersion, wanted configv1.Release, known ...configv1.Release) configv1.Release {
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

// mergeReleaseMetadata adds the metadata of the update service to a release.
func mergeReleaseMetadata(r configv1.Release, told *configv1.Release) configv1.Release {
	if told == nil || imageDigest(told.Image) != imageDigest(r.Image) {
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

// imageDigest returns the digest of a pull spec, or the whole pull spec if it has none. The same
// release may be in several repositories.
func imageDigest(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	return image
}
