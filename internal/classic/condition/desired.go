package condition

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
)

// serviceAccountNames returns the service accounts that may write the OperatorCondition of a ClusterServiceVersion.
// These are the accounts of its strategy, including duplicates.
func serviceAccountNames(csv *v1alpha1.ClusterServiceVersion) []string {
	strategy := csv.Spec.InstallStrategy.StrategySpec
	var names []string
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		names = append(names, cmp.Or(p.ServiceAccountName, "default"))
	}

	if len(names) == 0 {
		return []string{"default"}
	}

	return names
}

// deploymentNames returns the Deployments of a ClusterServiceVersion.
func deploymentNames(csv *v1alpha1.ClusterServiceVersion) []string {
	var names []string
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		names = append(names, d.Name)
	}
	return names
}

// mergeSpecConditions returns the conditions of the status after those of the spec were merged into them. Conditions
// that only the status has are kept. changed is true when the result differs from the status.
func mergeSpecConditions(condition *operatorsv2.OperatorCondition) (conditions []metav1.Condition, changed bool) {
	conditions = slices.Clone(condition.Status.Conditions)
	for _, wanted := range condition.Spec.Conditions {
		current := meta.FindStatusCondition(conditions, wanted.Type)
		if current != nil && current.Status == wanted.Status && current.ObservedGeneration == condition.Generation {
			continue
		}

		wanted.ObservedGeneration = condition.Generation
		meta.SetStatusCondition(&conditions, wanted)
		changed = true
	}

	return conditions, changed
}
