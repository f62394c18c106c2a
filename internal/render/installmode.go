package render

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// TargetNamespaces decides which namespaces an extension watches: [""], all of them,
// when watchNamespace is empty, and else the one that it names. modes are the install
// modes that its bundle supports.
//
//	watchNamespace              needs
//	empty                       AllNamespaces
//	equal to installNamespace   OwnNamespace
//	any other namespace         SingleNamespace
//
// A bundle of mode MultiNamespace only cannot be installed. The error is a
// *ConfigError, which says what to set instead.
func TargetNamespaces(modes []v1alpha1.InstallModeType, installNamespace, watchNamespace string) ([]string, error) {
	modes = slices.Sorted(slices.Values(modes))
	needs := neededMode(installNamespace, watchNamespace)
	if watchNamespace != metav1.NamespaceAll {
		if problems := validation.IsDNS1123Label(watchNamespace); len(problems) > 0 {
			return nil, &ConfigError{Problems: []string{fmt.Sprintf("invalid watch namespace '%s': %s", watchNamespace, strings.Join(problems, ", "))}}
		}
	}
	if slices.Contains(modes, needs) {
		return []string{watchNamespace}, nil
	}
	what := fmt.Sprintf("target namespaces %v", []string{watchNamespace})
	if watchNamespace == metav1.NamespaceAll {
		what = "targeting all namespaces"
	}
	return nil, &ConfigError{Problems: []string{
		fmt.Sprintf("supported install modes %v do not support %s: %s", modes, what, advice(modes, installNamespace)),
	}}
}

const noInstallMode = "none of AllNamespaces, OwnNamespace and SingleNamespace is among them, and no other mode can be installed"

func neededMode(installNamespace, watchNamespace string) v1alpha1.InstallModeType {
	switch watchNamespace {
	case metav1.NamespaceAll:
		return v1alpha1.InstallModeTypeAllNamespaces
	case installNamespace:
		return v1alpha1.InstallModeTypeOwnNamespace
	default:
		return v1alpha1.InstallModeTypeSingleNamespace
	}
}

// advice says which values watchNamespace can have.
func advice(modes []v1alpha1.InstallModeType, installNamespace string) string {
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
