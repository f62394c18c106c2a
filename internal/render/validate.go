package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// RefusedError is the error for a bundle that cannot be rendered, with any configuration. Another
// version of the bundle may be valid.
type RefusedError struct {
	// Bundle is the name of the bundle.
	Bundle string
	// Reasons are all reasons, in a fixed order. Each names its subject. It is never empty.
	Reasons []string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("validating bundle %q: %s", e.Bundle, strings.Join(e.Reasons, "; "))
}

// Validate returns a *RefusedError with every reason why a bundle cannot be rendered, or nil.
func Validate(b *bundle.Bundle) error {
	checks := []func(*bundle.Bundle) []string{
		checkNothingOmitted,
		checkPackageName,
		checkCSVName,
		checkCSVVersion,
		checkInstallModes,
		checkInstallStrategy,
		checkDeployments,
		checkOwnedCRDs,
		checkDuplicates,
		checkSupportedKinds,
		checkRemovedAPIs,
		checkAPIServices,
		checkWebhooks,
	}

	var reasons []string
	for _, check := range checks {
		reasons = append(reasons, check(b)...)
	}

	if len(reasons) > 0 {
		return &RefusedError{Bundle: b.Name(), Reasons: reasons}
	}

	return nil
}

// checkNothingOmitted refuses bundles with parts that the loader omitted. Without them an
// installation could miss rights, webhooks or anything else that its author relies on.
func checkNothingOmitted(b *bundle.Bundle) []string { return b.Omitted }

func checkPackageName(b *bundle.Bundle) []string {
	if b.Package == "" {
		return []string{"package name is empty"}
	}
	return nil
}

// checkCSVName checks the CSV's name, which is the prefix of the names of roles.
func checkCSVName(b *bundle.Bundle) []string {
	if problems := validation.IsDNS1123Subdomain(b.Name()); len(problems) > 0 {
		return []string{fmt.Sprintf("invalid ClusterServiceVersion name %q: %s", b.Name(), strings.Join(problems, ", "))}
	}
	return nil
}

// checkCSVVersion checks the version of the CSV. It may be empty: then the catalog states the
// version.
func checkCSVVersion(b *bundle.Bundle) []string {
	version := string(b.CSV.Spec.Version)
	if version == "" {
		return nil
	}
	if _, err := semver.ParseTolerant(version); err != nil {
		return []string{fmt.Sprintf("spec.version %q is not a semantic version: %v", version, err)}
	}
	return nil
}

func checkInstallModes(b *bundle.Bundle) []string {
	modes := b.InstallModes()
	installable := []v1alpha1.InstallModeType{
		v1alpha1.InstallModeTypeAllNamespaces, v1alpha1.InstallModeTypeOwnNamespace, v1alpha1.InstallModeTypeSingleNamespace,
	}
	if slices.ContainsFunc(modes, func(m v1alpha1.InstallModeType) bool { return slices.Contains(installable, m) }) {
		return nil
	}
	return []string{fmt.Sprintf("supported install modes %v: %s", modes, noInstallMode)}
}

// checkInstallStrategy checks the install strategy. It may be empty, because there is only one.
func checkInstallStrategy(b *bundle.Bundle) []string {
	if name := b.CSV.Spec.InstallStrategy.StrategyName; name != "" && name != v1alpha1.InstallStrategyDeployment {
		return []string{fmt.Sprintf("unsupported install strategy %q: only %q is known", name, v1alpha1.InstallStrategyDeployment)}
	}
	return nil
}

func checkDeployments(b *bundle.Bundle) []string {
	names := deploymentNames(b)
	var reasons []string
	if repeated := findDuplicates(names); len(repeated) > 0 {
		reasons = append(reasons, fmt.Sprintf("duplicate deployments %s in the ClusterServiceVersion", quoteNames(repeated)))
	}

	for _, name := range names {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			reasons = append(reasons, fmt.Sprintf("invalid deployment name %q: %s", name, strings.Join(problems, ", ")))
		}
	}

	return reasons
}

func deploymentNames(b *bundle.Bundle) []string {
	var names []string
	for _, deployment := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		names = append(names, deployment.Name)
	}
	return names
}

// checkOwnedCRDs returns a reason for CRDs that the CSV owns and the bundle does not ship.
func checkOwnedCRDs(b *bundle.Bundle) []string {
	shipped := map[string]bool{}
	for _, crd := range b.CRDs {
		shipped[crd.GetName()] = true
	}

	var missing []string
	for _, name := range ownedCRDNames(b) {
		if !shipped[name] {
			missing = append(missing, name)
		}
	}

	if len(missing) == 0 {
		return nil
	}

	return []string{fmt.Sprintf("owned CustomResourceDefinition %s not found in the bundle", quoteNames(missing))}
}

func ownedCRDNames(b *bundle.Bundle) []string {
	var names []string
	for _, crd := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		names = append(names, crd.Name)
	}
	return names
}

func checkAPIServices(b *bundle.Bundle) []string {
	var names []string
	for _, owned := range b.CSV.Spec.APIServiceDefinitions.Owned {
		names = append(names, owned.Version+"."+owned.Group)
	}

	if len(names) == 0 {
		return nil
	}
	// The spelling is part of the message that people search for.
	return []string{fmt.Sprintf("unsupported bundle: apiServiceDefintions are not supported: %s", quoteNames(names))}
}
