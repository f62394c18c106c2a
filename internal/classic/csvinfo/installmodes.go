package csvinfo

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// ValidateInstallModes returns an error if a list of install modes has duplicates.
func ValidateInstallModes(modes []v1alpha1.InstallMode) error {
	seen := map[v1alpha1.InstallModeType]bool{}
	for _, mode := range modes {
		if seen[mode.Type] {
			return fmt.Errorf("InstallMode list contains duplicates, cannot make set: %v", modes)
		}
		seen[mode.Type] = true
	}

	return nil
}

// SupportsInstallMode reports whether an install mode is supported.
func SupportsInstallMode(modes []v1alpha1.InstallMode, wanted v1alpha1.InstallModeType) bool {
	return slices.ContainsFunc(modes, func(m v1alpha1.InstallMode) bool { return m.Type == wanted && m.Supported })
}

// ValidateTargets returns an error if an operator in a namespace cannot watch the target namespaces. A
// single empty target means all namespaces.
func ValidateTargets(modes []v1alpha1.InstallMode, own string, targets []string) error {
	need := func(mode v1alpha1.InstallModeType, what string) error {
		if SupportsInstallMode(modes, mode) {
			return nil
		}
		return fmt.Errorf("%s InstallModeType not supported, cannot configure to watch %s", mode, what)
	}

	switch {
	case len(targets) == 0:
		return errors.New("operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces")
	case len(targets) == 1 && targets[0] == own:
		return need(v1alpha1.InstallModeTypeOwnNamespace, "own namespace")
	case len(targets) == 1 && targets[0] == "":
		return need(v1alpha1.InstallModeTypeAllNamespaces, "all namespaces")
	case len(targets) == 1:
		return need(v1alpha1.InstallModeTypeSingleNamespace, "one namespace")
	case slices.Contains(targets, ""):
		return errors.New("operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1")
	}

	if err := need(v1alpha1.InstallModeTypeMultiNamespace, fmt.Sprintf("%d namespaces", len(targets))); err != nil {
		return err
	}
	if slices.Contains(targets, own) {
		return need(v1alpha1.InstallModeTypeOwnNamespace, "own namespace")
	}

	return nil
}
