package condition

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// serviceAccountNames returns the service accounts that may write the OperatorCondition of a ClusterServiceVersion.
// These are the accounts of its strategy, including duplicates.
func serviceAccountNames(csv *v1alpha1.ClusterServiceVersion) []string {
	strategy := csv.Spec.InstallStrategy.StrategySpec
	var names []string
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		names = append(names, csvinfo.AccountName(p))
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

// needsCondition reports whether the OperatorCondition of a ClusterServiceVersion must be written. found is the existing
// one; nil when it does not exist.
func needsCondition(csv *v1alpha1.ClusterServiceVersion, found *operatorsv2.OperatorCondition) bool {
	if csvinfo.IsCopied(csv) {
		return false
	}
	if found == nil {
		return true
	}

	owner := metav1.GetControllerOf(found)
	if owner != nil && owner.UID != csv.UID {
		return false // It belongs to a deleted ClusterServiceVersion. Its deletion triggers a reconcile.
	}
	return owner == nil || !slices.Equal(found.Spec.ServiceAccounts, serviceAccountNames(csv)) || !slices.Equal(found.Spec.Deployments, deploymentNames(csv))
}

// accessFacts are the Role and the RoleBinding of an OperatorCondition; nil when they do not exist.
type accessFacts struct {
	role    *rbacv1.Role
	binding *rbacv1.RoleBinding
}

// access is the access of an operator to its own OperatorCondition, as far as it must be written.
type access struct {
	role    *rbacv1ac.RoleApplyConfiguration
	binding *rbacv1ac.RoleBindingApplyConfiguration
}

// decideAccess returns the Role that allows an operator to read and write only its own OperatorCondition, and its binding
// to the service accounts of the operator. It leaves out what exists.
func decideAccess(condition *operatorsv2.OperatorCondition, f accessFacts) access {
	var a access
	rule := newAccessRule(condition)
	if f.role == nil || !metav1.IsControlledBy(f.role, condition) || !equality.Semantic.DeepEqual(f.role.Rules, []rbacv1.PolicyRule{rule}) {
		a.role = rbacv1ac.Role(condition.Name, condition.Namespace).
			WithLabels(map[string]string{csvinfo.LabelManaged: "true"}).
			WithOwnerReferences(newOwnerReference(condition)).
			WithRules(rbacv1ac.PolicyRule().WithVerbs(rule.Verbs...).WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithResourceNames(rule.ResourceNames...))
	}

	subjects := newSubjects(condition)
	if f.binding == nil || !metav1.IsControlledBy(f.binding, condition) || !equality.Semantic.DeepEqual(f.binding.Subjects, subjects) {
		a.binding = rbacv1ac.RoleBinding(condition.Name, condition.Namespace).
			WithLabels(map[string]string{csvinfo.LabelManaged: "true"}).
			WithOwnerReferences(newOwnerReference(condition)).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(condition.Name))
		for _, s := range subjects {
			a.binding.WithSubjects(rbacv1ac.Subject().WithKind(s.Kind).WithNamespace(s.Namespace).WithName(s.Name))
		}
	}

	return a
}

func newAccessRule(condition *operatorsv2.OperatorCondition) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: []string{"get", "update", "patch"}, APIGroups: []string{operatorsv2.GroupVersion.Group},
		Resources: []string{"operatorconditions"}, ResourceNames: []string{condition.Name},
	}
}

// newSubjects returns the service accounts of an operator, without duplicates.
func newSubjects(condition *operatorsv2.OperatorCondition) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for _, name := range condition.Spec.ServiceAccounts {
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: condition.Namespace, Name: name}
		if !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

func newOwnerReference(condition *operatorsv2.OperatorCondition) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(operatorsv2.GroupVersion.String()).WithKind(operatorsv2.OperatorConditionKind).
		WithName(condition.Name).WithUID(condition.UID).WithController(true)
}
