package rbac

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// wildcard means every verb, group or resource in a rule.
const wildcard = "*"

// Permission is one verb on one resource: the smallest part of a rule, which an API server allows
// or denies as a whole.
type Permission struct {
	// Namespace is where it is needed. Empty means the whole cluster.
	Namespace string
	// Group and Resource are the resource: its plural name, with a subresource after a slash. The
	// core group is empty.
	Group, Resource string
	// Name is the object that it is needed on. Empty means every object.
	Name string
	// URL is a non-resource path of the API server. If set, the group, resource and name are
	// empty.
	URL string
	// Verb is the action.
	Verb string
}

// toPolicyRule returns the rule that grants only the permission.
func (p Permission) toPolicyRule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{p.Verb}}
	if p.URL != "" {
		rule.NonResourceURLs = []string{p.URL}
		return rule
	}

	rule.APIGroups, rule.Resources = []string{p.Group}, []string{p.Resource}
	if p.Name != "" {
		rule.ResourceNames = []string{p.Name}
	}

	return rule
}

func comparePermissions(a, b Permission) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.URL, b.URL), cmp.Compare(a.Verb, b.Verb))
}

// countPermissions returns how many permissions a rule consists of. It is a floating point number
// because a hostile rule with four long lists would overflow an integer.
func countPermissions(rule *rbacv1.PolicyRule) float64 {
	verbs := float64(len(rule.Verbs))
	return verbs * (float64(len(rule.APIGroups))*float64(len(rule.Resources))*float64(max(1, len(rule.ResourceNames))) +
		float64(len(rule.NonResourceURLs)))
}

// expandPermissions yields the permissions that a rule consists of, in a namespace.
func expandPermissions(namespace string, rule *rbacv1.PolicyRule) iter.Seq[Permission] {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	return func(yield func(Permission) bool) {
		for _, verb := range rule.Verbs {
			if !yieldResourcePermissions(Permission{Namespace: namespace, Verb: verb}, rule, names, yield) {
				return
			}
			for _, url := range rule.NonResourceURLs {
				if !yield(Permission{Namespace: namespace, URL: url, Verb: verb}) {
					return
				}
			}
		}
	}
}

// yieldResourcePermissions yields the permissions of a rule with the namespace and verb of p. It
// returns false if yield did.
func yieldResourcePermissions(p Permission, rule *rbacv1.PolicyRule, names []string, yield func(Permission) bool) bool {
	for _, p.Group = range rule.APIGroups {
		for _, p.Resource = range rule.Resources {
			for _, p.Name = range names {
				if !yield(p) {
					return false
				}
			}
		}
	}

	return true
}

// ruleCovers reports whether a rule grants everything that another one does, in one namespace. A
// rule without names applies to every name. A rule with names never covers one without. Several
// rules together can cover what none of them does: then each permission is checked.
func ruleCovers(holder, rule *rbacv1.PolicyRule) bool {
	return allMatch(rule.Verbs, func(verb string) bool { return hasOrWildcard(holder.Verbs, verb) }) &&
		allMatch(rule.APIGroups, func(group string) bool { return hasOrWildcard(holder.APIGroups, group) }) &&
		allMatch(rule.Resources, func(resource string) bool { return coversResource(holder.Resources, resource) }) &&
		allMatch(rule.NonResourceURLs, func(url string) bool { return coversNonResourceURL(holder.NonResourceURLs, url) }) &&
		coversResourceNames(holder.ResourceNames, rule.ResourceNames)
}

func allMatch(values []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(values, func(value string) bool { return !ok(value) })
}

func hasOrWildcard(held []string, value string) bool {
	return slices.Contains(held, value) || slices.Contains(held, wildcard)
}

// coversResource supports two wildcards: * is everything, including subresources, and */name is
// that subresource of every resource.
func coversResource(held []string, resource string) bool {
	if hasOrWildcard(held, resource) {
		return true
	}
	_, subresource, ok := strings.Cut(resource, "/")
	return ok && slices.Contains(held, wildcard+"/"+subresource)
}

func coversResourceNames(held, names []string) bool {
	switch {
	case len(held) == 0:
		return true
	case len(names) == 0:
		return false
	default:
		return allMatch(names, func(name string) bool { return slices.Contains(held, name) })
	}
}

// coversNonResourceURL supports a wildcard as the last character of a path.
func coversNonResourceURL(held []string, url string) bool {
	return slices.ContainsFunc(held, func(path string) bool {
		return path == url || strings.HasSuffix(path, wildcard) && strings.HasPrefix(url, strings.TrimRight(path, wildcard))
	})
}
