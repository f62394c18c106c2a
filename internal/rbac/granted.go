package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	groupAuthenticated = "system:authenticated"
	// groupMasters is above RBAC: its members may do everything.
	groupMasters = "system:masters"
)

// fullAuthority is what an administrator of the cluster has.
var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{wildcard}, APIGroups: []string{wildcard}, Resources: []string{wildcard}},
	{Verbs: []string{wildcard}, NonResourceURLs: []string{wildcard}},
}

// Identity is who asks the API server.
type Identity struct {
	User   string
	Groups []string
}

// ServiceAccount is a service account, with the groups that the API server puts it in.
func ServiceAccount(namespace, name string) Identity {
	return Identity{
		User:   serviceAccountUser(namespace, name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, groupAuthenticated},
	}
}

func serviceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Policy is all RBAC objects of a cluster. The rules of aggregated ClusterRoles are
// taken as they stand in them: a controller of the cluster keeps them up to date.
type Policy struct {
	Roles               []rbacv1.Role
	ClusterRoles        []rbacv1.ClusterRole
	RoleBindings        []rbacv1.RoleBinding
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
}

// Granted is the rules that hold for an identity.
type Granted struct {
	cluster    []rbacv1.PolicyRule
	namespaced map[string][]rbacv1.PolicyRule
}

// Granted returns the rules that hold for an identity. A binding to a role that does not
// exist grants nothing.
func (p *Policy) Granted(who Identity) *Granted {
	granted := &Granted{namespaced: map[string][]rbacv1.PolicyRule{}}
	if slices.Contains(who.Groups, groupMasters) {
		granted.cluster = append(granted.cluster, fullAuthority...)
	}

	roles := p.roles()
	for i := range p.ClusterRoleBindings {
		if binding := &p.ClusterRoleBindings[i]; who.isAmong(binding.Subjects, "") {
			granted.cluster = append(granted.cluster, roles[referred(binding.RoleRef, "")]...)
		}
	}

	for i := range p.RoleBindings {
		if binding := &p.RoleBindings[i]; who.isAmong(binding.Subjects, binding.Namespace) {
			granted.namespaced[binding.Namespace] = append(granted.namespaced[binding.Namespace],
				roles[referred(binding.RoleRef, binding.Namespace)]...)
		}
	}

	return granted
}

// Allows reports whether the permission is held: in its namespace, by a rule for that or
// for the whole cluster.
func (g *Granted) Allows(p Permission) bool {
	rule := p.rule()
	return g.covers(p.Namespace, &rule)
}

// Covers reports whether all that a rule grants is held in a namespace, by one rule or by several
// together; an empty namespace means the whole cluster. Of a rule with more than 50,000 single
// permissions only the former is looked for.
func (g *Granted) Covers(namespace string, rule *rbacv1.PolicyRule) bool {
	if g.covers(namespace, rule) {
		return true
	}
	if size(rule) > maxDelegated {
		return false
	}

	for p := range permissions(namespace, rule) {
		if !g.Allows(p) {
			return false
		}
	}
	return true
}

// covers reports whether one rule of those that hold in the namespace covers another.
func (g *Granted) covers(namespace string, rule *rbacv1.PolicyRule) bool {
	for i := range g.cluster {
		if covers(&g.cluster[i], rule) {
			return true
		}
	}

	local := g.namespaced[namespace]
	for i := range local {
		if covers(&local[i], rule) {
			return true
		}
	}
	return false
}

// isAmong reports whether one of a binding's subjects is the identity. In a RoleBinding,
// a ServiceAccount without a namespace is one of the binding's.
func (who Identity) isAmong(subjects []rbacv1.Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		switch subject.Kind {
		case rbacv1.UserKind:
			return subject.Name == who.User
		case rbacv1.GroupKind:
			return slices.Contains(who.Groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			home := subject.Namespace
			if home == "" {
				home = namespace
			}
			return home != "" && serviceAccountUser(home, subject.Name) == who.User
		default:
			return false
		}
	})
}

// roleKey names a Role or a ClusterRole.
type roleKey struct{ kind, namespace, name string }

// referred is the role that a binding of a namespace, empty for a ClusterRoleBinding,
// refers to.
func referred(ref rbacv1.RoleRef, namespace string) roleKey {
	if ref.Kind == kindClusterRole {
		namespace = ""
	}
	return roleKey{ref.Kind, namespace, ref.Name}
}

func (p *Policy) roles() map[roleKey][]rbacv1.PolicyRule {
	roles := make(map[roleKey][]rbacv1.PolicyRule, len(p.Roles)+len(p.ClusterRoles))
	for i := range p.Roles {
		roles[roleKey{kindRole, p.Roles[i].Namespace, p.Roles[i].Name}] = p.Roles[i].Rules
	}

	for i := range p.ClusterRoles {
		roles[roleKey{kindClusterRole, "", p.ClusterRoles[i].Name}] = p.ClusterRoles[i].Rules
	}
	return roles
}
