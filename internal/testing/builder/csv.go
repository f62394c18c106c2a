package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// CSV returns a ClusterServiceVersion without Deployments and without install modes.
func CSV(namespace, name string) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	csv.Spec.DisplayName = name
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{}
	return csv
}

// AllInstallModes returns every install mode as supported.
func AllInstallModes() []v1alpha1.InstallMode {
	return []v1alpha1.InstallMode{
		{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}, {Type: v1alpha1.InstallModeTypeSingleNamespace, Supported: true},
		{Type: v1alpha1.InstallModeTypeMultiNamespace, Supported: true}, {Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
}

// Permissions returns the permissions of a ClusterServiceVersion for a service account. rules are those of Rules.
func Permissions(account string, rules ...string) v1alpha1.StrategyDeploymentPermissions {
	return v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: Rules(rules...)}
}
