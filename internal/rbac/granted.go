package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	groupAuthenticated = "system:authenticated"
	// groupMasters bypasses RBAC: its members may do everything.
	groupMasters = "system:masters"
)

// fullAuthority is the rules of a cluster administrator.
var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{wildcard}, APIGroups: []string{wildcard}, Resources: []string{wildcard}},
	{Verbs: []string{wildcard}, NonResourceURLs: []string{wildcard}},
}

// Identity is the user of a request to the API server.
type Identity struct {
	User   string
	Groups []string
}

// ServiceAccount returns the identity of a service account, with the groups that the API server
// adds.
func ServiceAccount(namespace, name string) Identity {
	return Identity{
		User:   serviceAccountUser(namespace, name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, groupAuthenticated},
	}
}

func serviceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Policy is all RBAC objects of a cluster. The rules of aggregated ClusterRoles are used as they
// are: a controller of the cluster keeps them up to date.
type Policy struct {
	Roles               []rbacv1.Role
	ClusterRoles        []rbacv1.ClusterRole
	RoleBindings        []rbacv1.RoleBinding
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
}

// Granted is the rules that apply to an identity.
type Granted struct {
	cluster    []rbacv1.PolicyRule
	namespaced map[string][]rbacv1.PolicyRule
}

// Granted returns the rules that apply to an identity. A binding to a role that does not exist
// grants nothing.
func (p *Policy) Granted(identity Identity) *Granted {
	granted := &Granted{namespaced: map[string][]rbacv1.PolicyRule{}}
	if slices.Contains(identity.Groups, groupMasters) {
		granted.cluster = append(granted.cluster, fullAuthority...)
	}

	roles := p.indexRulesByRole()
	for i := range p.ClusterRoleBindings {
		if binding := &p.ClusterRoleBindings[i]; identity.isAmongSubjects(binding.Subjects, "") {
			granted.cluster = append(granted.cluster, roles[referencedRole(binding.RoleRef, "")]...)
		}
	}

	for i := range p.RoleBindings {
		if binding := &p.RoleBindings[i]; identity.isAmongSubjects(binding.Subjects, binding.Namespace) {
			granted.namespaced[binding.Namespace] = append(granted.namespaced[binding.Namespace],
				roles[referencedRole(binding.RoleRef, binding.Namespace)]...)
		}
	}

	return granted
}

// Allows reports whether the permission is granted: by a rule for its namespace or for the whole
// cluster.
func (g *Granted) Allows(p Permission) bool {
	rule := p.toPolicyRule()
	return g.hasCoveringRule(p.Namespace, &rule)
}

// Covers reports whether everything that a rule grants is granted in a namespace, by one rule or
// by several together. An empty namespace means the whole cluster. A rule with more than 50,000
// single permissions must be covered by one rule.
func (g *Granted) Covers(namespace string, rule *rbacv1.PolicyRule) bool {
	if g.hasCoveringRule(namespace, rule) {
		return true
	}
	if countPermissions(rule) > maxExpandedPermissions {
		return false
	}

	for p := range expandPermissions(namespace, rule) {
		if !g.Allows(p) {
			return false
		}
	}
	return true
}

// hasCoveringRule reports whether a single rule in the namespace covers another.
func (g *Granted) hasCoveringRule(namespace string, rule *rbacv1.PolicyRule) bool {
	for i := range g.cluster {
		if ruleCovers(&g.cluster[i], rule) {
			return true
		}
	}

	local := g.namespaced[namespace]
	for i := range local {
		if ruleCovers(&local[i], rule) {
			return true
		}
	}
	return false
}

// isAmongSubjects reports whether the identity is one of a binding's subjects. In a RoleBinding, a
// ServiceAccount without a namespace belongs to the binding's namespace.
func (identity Identity) isAmongSubjects(subjects []rbacv1.Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		switch subject.Kind {
		case rbacv1.UserKind:
			return subject.Name == identity.User
		case rbacv1.GroupKind:
			return slices.Contains(identity.Groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			home := subject.Namespace
			if home == "" {
				home = namespace
			}
			return home != "" && serviceAccountUser(home, subject.Name) == identity.User
		default:
			return false
		}
	})
}

// roleKey names a Role or a ClusterRole.
type roleKey struct{ kind, namespace, name string }

// referencedRole returns the role that a binding refers to. The namespace is that of the binding,
// empty for a ClusterRoleBinding.
func referencedRole(ref rbacv1.RoleRef, namespace string) roleKey {
	if ref.Kind == kindClusterRole {
		namespace = ""
	}
	return roleKey{ref.Kind, namespace, ref.Name}
}

func (p *Policy) indexRulesByRole() map[roleKey][]rbacv1.PolicyRule {
	roles := make(map[roleKey][]rbacv1.PolicyRule, len(p.Roles)+len(p.ClusterRoles))
	for i := range p.Roles {
		roles[roleKey{kindRole, p.Roles[i].Namespace, p.Roles[i].Name}] = p.Roles[i].Rules
	}

	for i := range p.ClusterRoles {
		roles[roleKey{kindClusterRole, "", p.ClusterRoles[i].Name}] = p.ClusterRoles[i].Rules
	}
	return roles
}
