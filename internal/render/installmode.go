package render

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// TargetNamespaces returns the namespaces that an extension watches: [""], which means
// all, if watchNamespace is empty, otherwise that one. modes are the install modes that
// its bundle supports.
//
//	watchNamespace              needs
//	empty                       AllNamespaces
//	equal to installNamespace   OwnNamespace
//	any other namespace         SingleNamespace
//
// A bundle that supports only MultiNamespace cannot be installed. The error is a
// *ConfigError, which states what to set instead.
func TargetNamespaces(modes []v1alpha1.InstallModeType, installNamespace, watchNamespace string) ([]string, error) {
	modes = slices.Sorted(slices.Values(modes))
	needed := neededInstallMode(installNamespace, watchNamespace)
	if watchNamespace != metav1.NamespaceAll {
		if problems := validation.IsDNS1123Label(watchNamespace); len(problems) > 0 {
			return nil, &ConfigError{Problems: []string{fmt.Sprintf("invalid watch namespace '%s': %s", watchNamespace, strings.Join(problems, ", "))}}
		}
	}

	if slices.Contains(modes, needed) {
		return []string{watchNamespace}, nil
	}

	requested := fmt.Sprintf("target namespaces %v", []string{watchNamespace})
	if watchNamespace == metav1.NamespaceAll {
		requested = "targeting all namespaces"
	}

	problem := fmt.Sprintf("supported install modes %v do not support %s: %s", modes, requested, suggestWatchNamespace(modes, installNamespace))
	if known := installModeProblem(modes, installNamespace, watchNamespace); known != "" {
		problem = known + ": " + problem
	}

	return nil, &ConfigError{Problems: []string{problem}}
}

// installModeProblem returns the text, which scripts match, for a watchNamespace that the install
// modes do not support. It returns an empty string if no mode can be installed.
func installModeProblem(modes []v1alpha1.InstallModeType, installNamespace, watchNamespace string) string {
	own := slices.Contains(modes, v1alpha1.InstallModeTypeOwnNamespace)
	single := slices.Contains(modes, v1alpha1.InstallModeTypeSingleNamespace)
	all := slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces)
	switch {
	case !own && !single && !all:
		return ""
	case !own && !single:
		return fmt.Sprintf(problemUnknown, fieldWatchNamespace)
	case watchNamespace == metav1.NamespaceAll:
		return fmt.Sprintf(problemMissing, fieldWatchNamespace)
	case own:
		return fmt.Sprintf("invalid value %q: must be %q (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode",
			watchNamespace, installNamespace)
	default:
		return fmt.Sprintf("invalid value %q: must be different from %q (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace",
			watchNamespace, installNamespace)
	}
}

const noInstallMode = "none of AllNamespaces, OwnNamespace and SingleNamespace is among them, and no other mode can be installed"

func neededInstallMode(installNamespace, watchNamespace string) v1alpha1.InstallModeType {
	switch watchNamespace {
	case metav1.NamespaceAll:
		return v1alpha1.InstallModeTypeAllNamespaces
	case installNamespace:
		return v1alpha1.InstallModeTypeOwnNamespace
	default:
		return v1alpha1.InstallModeTypeSingleNamespace
	}
}

// suggestWatchNamespace returns the possible values of watchNamespace.
func suggestWatchNamespace(modes []v1alpha1.InstallModeType, installNamespace string) string {
	var options []string
	if slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces) {
		options = append(options, "leave watchNamespace unset, to watch all namespaces")
	}
	if slices.Contains(modes, v1alpha1.InstallModeTypeOwnNamespace) {
		options = append(options, fmt.Sprintf("set watchNamespace to %q, the install namespace", installNamespace))
	}
	if slices.Contains(modes, v1alpha1.InstallModeTypeSingleNamespace) {
		options = append(options, fmt.Sprintf("set watchNamespace to one namespace other than the install namespace %q", installNamespace))
	}
	if len(options) == 0 {
		return noInstallMode
	}

	return "in " + configField + " " + strings.Join(options, ", or ")
}
