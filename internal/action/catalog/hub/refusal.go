package hub

import (
	"cmp"
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

// Platforms are what the nodes of a cluster have. An empty list means that it is unknown.
type Platforms struct {
	Architectures, OperatingSystems []string
}

// WarnPlatform returns why a package fits no node of a cluster. It compares architectures and operating systems, each by itself.
// The labels of packages are often incomplete, so the package is not refused. It returns an empty text if a node fits, or if
// one of the sides is unknown.
func (s *PackageSummary) WarnPlatform(nodes Platforms) string {
	return cmp.Or(
		warnMissing("architecture", s.Architectures, nodes.Architectures),
		warnMissing("operating system", s.operatingSystems, nodes.OperatingSystems),
	)
}

// warnMissing returns a warning if a package supports nothing of what the nodes have.
func warnMissing(what string, supported, nodes []string) string {
	isSupported := func(name string) bool { return slices.Contains(supported, name) }
	if len(nodes) == 0 || len(supported) == 0 || slices.ContainsFunc(nodes, isSupported) {
		return ""
	}
	return fmt.Sprintf("Its labels name %s, or no %s, and the nodes of this cluster have %s.", strings.Join(supported, ", "), what, strings.Join(nodes, ", "))
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
