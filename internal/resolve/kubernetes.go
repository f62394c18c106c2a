package resolve

import (
	"fmt"

	"github.com/blang/semver/v4"
)

// Suffices reports whether a cluster's version of Kubernetes is as new as a minKubeVersion asks.
// Only the three numbers of versions count: providers of clusters write their own marks
// behind them. An empty version asks for nothing, and one of the cluster that is empty is not
// known, and suffices. A version that is none is an error, a MinKubeVersionError when it is the
// bundle's.
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

	return plain(has).GTE(plain(wanted)), nil
}

// MinKubeVersionError says that a bundle's minKubeVersion is no version.
type MinKubeVersionError struct{ Version string }

// Error says where it is, and whose business.
func (e *MinKubeVersionError) Error() string {
	return fmt.Sprintf("spec.minKubeVersion %q of its ClusterServiceVersion is no version: its author has to correct it", e.Version)
}

// plain is a version without its pre-release and build parts.
func plain(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch}
}
