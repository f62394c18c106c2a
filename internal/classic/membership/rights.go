package membership

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

const (
	kindRole        = "Role"
	kindRoleBinding = "RoleBinding"
	kindClusterRole = "ClusterRole"

	// maxPermissions limits the single permissions of a Role that is checked. Roles of known bundles have
	// fewer than 1,000. With the 100 rules that an operator commonly asks for, the limit means some 5 million
	// comparisons, well under a second.
	maxPermissions = 50_000
	// maxRuleBytes limits how much of a rule a refusal quotes.
	maxRuleBytes = 200
)

// Rights are the Roles and RoleBindings of an operator's namespace that also apply to other namespaces.
type Rights struct {
	// Roles grant only permissions that the operator asks for.
	Roles []*rbacv1.Role
	// Bindings bind these Roles to service accounts of the operator that ask for the Roles' permissions.
	Bindings []*rbacv1.RoleBinding
	// Refused are the other Roles and RoleBindings.
	Refused []Refusal
}

// Refusal states why an object grants no rights outside of its namespace.
type Refusal struct {
	Kind, Name string
	Reason     error
}

// RightsOf returns the Roles and RoleBindings of a ClusterServiceVersion's namespace that may be copied to the
// other namespaces of its operator, or to the whole cluster.
//
// Labels and owner references do not prove that a Role belongs to the ClusterServiceVersion: a user who may write
// Roles in the namespace may set them too. Kubernetes prevents this user from granting more than the user has
// there. But a copy is created with the rights of olm-operator and would grant the same elsewhere.
//
// Therefore a Role is copied only if the permissions of the ClusterServiceVersion cover each of its rules. A
// RoleBinding is copied only if it binds such a Role, and only to service accounts of the namespace whose own
// permissions cover the Role. So no service account of an operator gets the permissions of another one.
func RightsOf(csv *v1alpha1.ClusterServiceVersion, roles []rbacv1.Role, bindings []rbacv1.RoleBinding) Rights {
	var all []rbacv1.PolicyRule
	asked := map[string][]rbacv1.PolicyRule{}
	for _, p := range csv.Spec.InstallStrategy.StrategySpec.Permissions {
		account := csvinfo.AccountName(p)
		all, asked[account] = append(all, p.Rules...), append(asked[account], p.Rules...)
	}

	var rights Rights
	refuse := func(kind, name string, reason error) {
		rights.Refused = append(rights.Refused, Refusal{Kind: kind, Name: name, Reason: reason})
	}
	covered := map[string]*rbacv1.Role{}
	for i := range roles {
		role := &roles[i]
		if err := CheckCovered(all, role.Rules); err != nil {
			refuse(kindRole, role.Name, err)
			continue
		}
		covered[role.Name] = role
		rights.Roles = append(rights.Roles, role)
	}

	for i := range bindings {
		binding := &bindings[i]
		if err := checkBinding(csv.Namespace, asked, covered, binding); err != nil {
			refuse(kindRoleBinding, binding.Name, err)
			continue
		}
		rights.Bindings = append(rights.Bindings, binding)
	}

	return rights
}

// Log logs the refused objects.
func (r *Rights) Log(log logr.Logger) {
	for _, refused := range r.Refused {
		log.Info("Not granting an operator rights outside of its namespace", "kind", refused.Kind, "name", refused.Name, "reason", refused.Reason.Error())
	}
}

// checkBinding returns why a RoleBinding must not be copied; nil when it may be.
func checkBinding(namespace string, asked map[string][]rbacv1.PolicyRule, covered map[string]*rbacv1.Role, binding *rbacv1.RoleBinding) error {
	role := covered[binding.RoleRef.Name]
	switch {
	case binding.RoleRef.APIGroup != rbacv1.GroupName, binding.RoleRef.Kind != kindRole, role == nil:
		return fmt.Errorf("the %s %q that it binds is not copied", binding.RoleRef.Kind, binding.RoleRef.Name)
	case len(binding.Subjects) == 0:
		return errors.New("it has no subjects")
	}

	for _, s := range binding.Subjects {
		// A subject without a namespace would refer to the namespace of the copy.
		if s.Kind != rbacv1.ServiceAccountKind || s.APIGroup != "" || s.Namespace != namespace {
			return fmt.Errorf("its subject %s %q is not a ServiceAccount of namespace %s", s.Kind, s.Name, namespace)
		}
		rules, ok := asked[s.Name]
		if !ok {
			return fmt.Errorf("the ClusterServiceVersion asks for no permissions for ServiceAccount %q", s.Name)
		}
		if err := CheckCovered(rules, role.Rules); err != nil {
			return fmt.Errorf("for ServiceAccount %q: %w", s.Name, err)
		}
	}

	return nil
}

// CheckCovered returns an error that names the first rule that grants more than the asked rules; nil when there is none.
func CheckCovered(asked, rules []rbacv1.PolicyRule) error {
	held := grantedByRules(asked)
	left := float64(maxPermissions)
	for i := range rules {
		rule := &rules[i]
		if left -= countPermissions(rule); left < 0 {
			return fmt.Errorf("it grants more than %d single permissions, too many to check", maxPermissions)
		}
		if !held.Covers("", rule) {
			return fmt.Errorf("the permissions of the ClusterServiceVersion do not cover the rule %s", formatRule(rule))
		}
	}

	return nil
}

// countPermissions returns the number of single permissions in a rule. It is a float because four long lists may
// overflow an integer.
func countPermissions(rule *rbacv1.PolicyRule) float64 {
	things := float64(len(rule.APIGroups))*float64(len(rule.Resources))*float64(max(1, len(rule.ResourceNames))) + float64(len(rule.NonResourceURLs))
	return float64(len(rule.Verbs)) * things
}

// grantedByRules returns what the given rules grant to their subject.
func grantedByRules(rules []rbacv1.PolicyRule) *rbac.Granted {
	const user = "operator"
	policy := rbac.Policy{
		ClusterRoles: []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}, RoleRef: rbacv1.RoleRef{Kind: kindClusterRole, Name: user},
		}},
	}

	return policy.Granted(rbac.Identity{User: user})
}

func formatRule(rule *rbacv1.PolicyRule) string {
	data, err := json.Marshal(rule)
	if err != nil {
		return err.Error()
	}
	return excerpt.Start(string(data), maxRuleBytes)
}
