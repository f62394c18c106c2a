package leastprivilege

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// Right is a rule of a role of the service account.
type Right struct {
	// Namespace limits the right to a namespace. Empty means the whole cluster.
	Namespace       string   `json:"namespace,omitempty"`
	Verbs           []string `json:"verbs"`
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	// FarReaching reports whether the rule can be used to gain further rights.
	FarReaching bool `json:"farReaching,omitempty"`
}

// Rights are the rights that an installation needs.
type Rights struct {
	// Bundle is the name of the bundle that is installed with them.
	Bundle string `json:"bundle"`
	// Rights are those of the whole cluster first, then those of namespaces.
	Rights []Right `json:"rights"`
}

// Rights returns the rules of all roles of the service account.
func (g *Generated) Rights() Rights {
	rights := Rights{Bundle: g.Bundle, Rights: []Right{}}
	for _, object := range g.Objects {
		var rules []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			rules = role.Rules
		}
		for _, rule := range rules {
			rights.Rights = append(rights.Rights, Right{
				Namespace: object.GetNamespace(), Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources,
				ResourceNames: rule.ResourceNames, NonResourceURLs: rule.NonResourceURLs, FarReaching: rbac.IsFarReaching(&rule),
			})
		}
	}

	slices.SortStableFunc(rights.Rights, func(a, b Right) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return rights
}
