package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// escalatingVerbs are the verbs that grant the rights of others, or further rights.
var escalatingVerbs = []string{rbacv1.VerbAll, "escalate", "bind", "impersonate"}

// IsFarReaching reports whether a rule can be used to gain further rights: it allows every verb or
// every resource, a verb that grants rights, or access to all Secrets.
func IsFarReaching(rule *rbacv1.PolicyRule) bool {
	escalates := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return slices.Contains(escalatingVerbs, verb) })
	secrets := slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0
	return escalates || secrets || slices.Contains(rule.Resources, rbacv1.ResourceAll)
}
