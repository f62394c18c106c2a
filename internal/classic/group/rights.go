package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/requirements"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

const (
	kindRole        = "Role"
	kindRoleBinding = "RoleBinding"
	kindClusterRole = "ClusterRole"

	// maxSingle is how many single permissions a Role may consist of to be looked at. Roles of bundles
	// known to us have fewer than 1,000; with the 100 rules that an operator commonly asks for, it is some
	// 5 million comparisons, well under a second.
	maxSingle = 50_000
	// maxText is how much of a rule, in bytes, the reason of a refusal shows.
	maxText = 200
)

// Rights is what of the Roles and RoleBindings of an operator's namespace holds in other namespaces too.
type Rights struct {
	// Roles grant nothing that the operator does not ask for.
	Roles []*rbacv1.Role
	// Bindings bind such Roles to accounts of the operator that ask for what these grant.
	Bindings []*rbacv1.RoleBinding
	// Refused are the others.
	Refused []Refusal
}

// Refusal says why an object gives no rights outside of its namespace.
type Refusal struct {
	Kind, Name string
	Reason     error
}

// RightsOf decides which Roles and RoleBindings of the namespace of a ClusterServiceVersion are copied to
// where its operator is to have rights as well, which may be the whole cluster.
//
// That they are marked as belonging to the ClusterServiceVersion does not tell: whoever may write Roles in
// the namespace may write the labels and the owner references. Kubernetes keeps such a person from granting
// more than he has there; a copy, which is made with the rights of olm-operator, would give him the
// same elsewhere. So a Role is copied only when the permissions of the ClusterServiceVersion itself cover
// each of its rules. A RoleBinding is copied only when it binds such a Role, and only to ServiceAccounts
// of the namespace whose own permissions cover it: of two accounts of an operator, neither gets at what
// the other asks for.
func RightsOf(csv *v1alpha1.ClusterServiceVersion, roles []rbacv1.Role, bindings []rbacv1.RoleBinding) Rights {
	var all []rbacv1.PolicyRule
	asked := map[string][]rbacv1.PolicyRule{}
	for _, p := range csv.Spec.InstallStrategy.StrategySpec.Permissions {
		account := requirements.AccountName(p)
		all, asked[account] = append(all, p.Rules...), append(asked[account], p.Rules...)
	}

	var rights Rights
	refuse := func(kind, name string, reason error) {
		rights.Refused = append(rights.Refused, Refusal{Kind: kind, Name: name, Reason: reason})
	}
	covered := map[string]*rbacv1.Role{}
	for i := range roles {
		role := &roles[i]
		if err := uncovered(all, role.Rules); err != nil {
			refuse(kindRole, role.Name, err)
			continue
		}
		covered[role.Name] = role
		rights.Roles = append(rights.Roles, role)
	}

	for i := range bindings {
		binding := &bindings[i]
		if err := unbound(csv.Namespace, asked, covered, binding); err != nil {
			refuse(kindRoleBinding, binding.Name, err)
			continue
		}
		rights.Bindings = append(rights.Bindings, binding)
	}

	return rights
}

// Log tells of what was refused.
func (r *Rights) Log(log logr.Logger) {
	for _, refused := range r.Refused {
		log.Info("Not giving an operator rights outside of its namespace", "kind", refused.Kind, "name", refused.Name, "reason", refused.Reason.Error())
	}
}

// unbound says why a RoleBinding is not copied; nil when it is.
func unbound(namespace string, asked map[string][]rbacv1.PolicyRule, covered map[string]*rbacv1.Role, binding *rbacv1.RoleBinding) error {
	role := covered[binding.RoleRef.Name]
	switch {
	case binding.RoleRef.APIGroup != rbacv1.GroupName, binding.RoleRef.Kind != kindRole, role == nil:
		return fmt.Errorf("the %s %q that it binds is not copied", binding.RoleRef.Kind, binding.RoleRef.Name)
	case len(binding.Subjects) == 0:
		return errors.New("it has no subjects")
	}

	for _, s := range binding.Subjects {
		// Without a namespace, it would be the account of whichever namespace the copy is in.
		if s.Kind != rbacv1.ServiceAccountKind || s.APIGroup != "" || s.Namespace != namespace {
			return fmt.Errorf("its subject %s %q is no ServiceAccount of namespace %s", s.Kind, s.Name, namespace)
		}
		rules, ok := asked[s.Name]
		if !ok {
			return fmt.Errorf("the ClusterServiceVersion asks for no permissions for ServiceAccount %q", s.Name)
		}
		if err := uncovered(rules, role.Rules); err != nil {
			return fmt.Errorf("for ServiceAccount %q: %w", s.Name, err)
		}
	}

	return nil
}

// uncovered says which of the rules of a Role grants more than the rules that are asked for; nil when none
// does.
func uncovered(asked, rules []rbacv1.PolicyRule) error {
	held := holding(asked)
	left := float64(maxSingle)
	for i := range rules {
		rule := &rules[i]
		if left -= size(rule); left < 0 {
			return fmt.Errorf("it grants more than %d single permissions, too many to look at each", maxSingle)
		}
		if !held.Covers("", rule) {
			return fmt.Errorf("the permissions of the ClusterServiceVersion do not cover the rule %s", textOf(rule))
		}
	}

	return nil
}

// size is how many single permissions a rule consists of. A rule of four long lists has more than an
// integer can count.
func size(rule *rbacv1.PolicyRule) float64 {
	things := float64(len(rule.APIGroups))*float64(len(rule.Resources))*float64(max(1, len(rule.ResourceNames))) + float64(len(rule.NonResourceURLs))
	return float64(len(rule.Verbs)) * things
}

// holding is somebody who has these rules.
func holding(rules []rbacv1.PolicyRule) *rbac.Granted {
	const who = "operator"
	policy := rbac.Policy{
		ClusterRoles: []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: who}, Rules: rules}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: who}}, RoleRef: rbacv1.RoleRef{Kind: kindClusterRole, Name: who},
		}},
	}

	return policy.Granted(rbac.Identity{User: who})
}

func textOf(rule *rbacv1.PolicyRule) string {
	data, err := json.Marshal(rule)
	if err != nil {
		return err.Error()
	}
	if len(data) > maxText {
		return strings.ToValidUTF8(string(data[:maxText]), "") + "…"
	}
	return string(data)
}
