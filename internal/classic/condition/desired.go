package condition

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
)

// accounts are the ServiceAccounts that may write the OperatorCondition of a ClusterServiceVersion:
// those of its strategy, as often as they are named there.
func accounts(csv *v1alpha1.ClusterServiceVersion) []string {
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

// deployments are the Deployments of a ClusterServiceVersion.
func deployments(csv *v1alpha1.ClusterServiceVersion) []string {
	var names []string
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		names = append(names, d.Name)
	}
	return names
}

// seen returns the conditions of the status of an OperatorCondition once those of its spec are taken
// over. What only the status has stays. changed tells whether they differ from what the status has.
func seen(condition *operatorsv2.OperatorCondition) (conditions []metav1.Condition, changed bool) {
	conditions = slices.Clone(condition.Status.Conditions)
	for _, said := range condition.Spec.Conditions {
		was := meta.FindStatusCondition(conditions, said.Type)
		if was != nil && was.Status == said.Status && was.ObservedGeneration == condition.Generation {
			continue
		}

		said.ObservedGeneration = condition.Generation
		meta.SetStatusCondition(&conditions, said)
		changed = true
	}

	return conditions, changed
}
