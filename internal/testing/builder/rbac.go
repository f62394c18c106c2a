// Package builder builds Kubernetes objects that the tests of several packages need. The objects are valid and minimal;
// tests set the fields that matter to them.
//
// It is only for tests. No package of the product imports it.
package builder

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rules parses rules of the form VERBS GROUPS RESOURCES [NAMES], each a list with commas. The core group is "core".
func Rules(texts ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, text := range texts {
		words := strings.Fields(text)
		list := func(i int) []string { return strings.Split(words[i], ",") }
		rule := rbacv1.PolicyRule{Verbs: list(0), APIGroups: list(1), Resources: list(2)}
		for i, group := range rule.APIGroups {
			if group == "core" {
				rule.APIGroups[i] = ""
			}
		}
		if len(words) > 3 {
			rule.ResourceNames = list(3)
		}
		rules = append(rules, rule)
	}
	return rules
}

// ServiceAccountSubject returns the subject of a binding to a service account.
func ServiceAccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Role returns a Role and the RoleBinding of the same name that binds it to subjects.
func Role(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, subjects ...rbacv1.Subject) (*rbacv1.Role, *rbacv1.RoleBinding) {
	return &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(), Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}
}

// ClusterRole returns a ClusterRole and the ClusterRoleBinding of the same name that binds it to subjects.
func ClusterRole(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, subjects ...rbacv1.Subject) (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	return &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: *meta.DeepCopy(), Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}
}
