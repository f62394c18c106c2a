package hub

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// Refuse returns why no version of a package can be installed on a cluster of a Kubernetes version, as operator-controller
// decides it: by the minKubeVersions of all versions, and, as an extension of OLM v1, by the install modes of the newest. It
// returns an empty text if one can be installed, or if the Kubernetes version is unknown.
func (s *PackageSummary) Refuse(kubernetes string, isExtension bool) string {
	runs := func(least string) bool {
		suffices, err := resolve.Suffices(kubernetes, least)
		var invalid *resolve.MinKubeVersionError
		return suffices || err != nil && !errors.As(err, &invalid)
	}
	if len(s.minKubeVersions) > 0 && !slices.ContainsFunc(s.minKubeVersions, runs) {
		return fmt.Sprintf("It needs Kubernetes %s or later, and this cluster runs %s.", strings.Join(s.minKubeVersions, " or "), kubernetes)
	}
	if isExtension {
		return refuseInstallModes(s.InstallModes)
	}
	return ""
}

// WarnArchitecture returns a warning if a package supports none of the architectures of a cluster's nodes. The labels of
// packages are often incomplete, so the package is not refused. It returns an empty text if one of the architectures is
// supported, or if either side is unknown.
func (s *PackageSummary) WarnArchitecture(nodes []string) string {
	isSupported := func(architecture string) bool { return slices.Contains(s.Architectures, architecture) }
	if len(nodes) == 0 || len(s.Architectures) == 0 || slices.ContainsFunc(nodes, isSupported) {
		return ""
	}
	return fmt.Sprintf("Its labels name %s, or no architecture, and the nodes of this cluster have %s.", strings.Join(s.Architectures, ", "), strings.Join(nodes, ", "))
}

// refuseInstallModes returns why OLM v1 cannot install a bundle with these install modes in any namespace.
func refuseInstallModes(names []string) string {
	if len(names) == 0 {
		return "" // the catalog does not contain them
	}

	var modes []v1alpha1.InstallModeType
	for _, name := range names {
		modes = append(modes, v1alpha1.InstallModeType(name))
	}
	var refused error
	for _, watched := range []string{"other", "own", ""} {
		if _, refused = render.TargetNamespaces(modes, "own", watched); refused == nil {
			return ""
		}
	}
	return "OLM v1 cannot install it: " + refused.Error() + "."
}
