package resolve

import (
	"fmt"

	"github.com/blang/semver/v4"
)

// Suffices reports whether a cluster's Kubernetes version is at least minKubeVersion.
// It compares major, minor and patch only, because cluster providers append their own
// suffixes. It returns true when either version is empty: nothing is required, or the
// cluster's version is unknown. It returns a *MinKubeVersionError when minKubeVersion
// cannot be parsed, and another error when the cluster's version cannot.
func Suffices(cluster, minKubeVersion string) (bool, error) {
	if minKubeVersion == "" || cluster == "" {
		return true, nil
	}

	wanted, err := semver.ParseTolerant(minKubeVersion)
	if err != nil {
		return false, &MinKubeVersionError{Version: minKubeVersion}
	}

	has, err := semver.ParseTolerant(cluster)
	if err != nil {
		return false, fmt.Errorf("the version of the API server, %q: %w", cluster, err)
	}

	return coreVersion(has).GTE(coreVersion(wanted)), nil
}

// MinKubeVersionError is the error for a bundle whose minKubeVersion is not a version.
type MinKubeVersionError struct{ Version string }

// Error names the field and the person who has to correct it.
func (e *MinKubeVersionError) Error() string {
	return fmt.Sprintf("spec.minKubeVersion %q of its ClusterServiceVersion is not a version: its author has to correct it", e.Version)
}

// coreVersion returns the version without its pre-release and build parts.
func coreVersion(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch}
}
