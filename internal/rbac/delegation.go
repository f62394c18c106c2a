package rbac

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// role is a Role or, without a namespace, a ClusterRole.
type role struct {
	roleKey
	labels    map[string]string
	rules     []rbacv1.PolicyRule
	selectors []labels.Selector
}

// binding is a RoleBinding or, without a namespace, a ClusterRoleBinding.
type binding struct {
	kind, namespace, name string
	ref                   rbacv1.RoleRef
}

// parseRolesAndBindings returns the roles and bindings among the objects.
func (r *collector) parseRolesAndBindings(objects []unstructured.Unstructured) ([]role, []binding) {
	var roles []role
	var bindings []binding
	for i := range objects {
		object := &objects[i]
		gvk := object.GroupVersionKind()
		if gvk.Group != rbacv1.GroupName {
			continue
		}

		key := roleKey{gvk.Kind, object.GetNamespace(), object.GetName()}
		var err error
		switch gvk.Kind {
		case kindClusterRole:
			key.namespace = ""
			fallthrough
		case kindRole:
			var parsed role
			parsed, err = parseRole(key, object)
			roles = append(roles, parsed)
		case kindClusterRoleBinding:
			key.namespace = ""
			fallthrough
		case kindRoleBinding:
			// The two kinds of binding have the same fields.
			var parsed rbacv1.RoleBinding
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &parsed)
			if err == nil {
				bindings = append(bindings, binding{key.kind, key.namespace, key.name, parsed.RoleRef})
			}
		}

		if err != nil {
			r.addObjectError(object, err)
		}
	}

	return roles, bindings
}

// parseRole parses a role. On an error it returns a role without rules, so that bindings to it do
// not appear to refer to nothing.
func parseRole(key roleKey, object *unstructured.Unstructured) (role, error) {
	// A ClusterRole has every field of a Role.
	var parsed rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &parsed); err != nil {
		return role{roleKey: key}, err
	}

	result := role{roleKey: key, labels: parsed.Labels, rules: parsed.Rules}
	if key.kind == kindRole || parsed.AggregationRule == nil {
		return result, nil
	}

	for i := range parsed.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&parsed.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return result, fmt.Errorf("its aggregationRule: %w", err)
		}
		result.selectors = append(result.selectors, selector)
	}

	return result, nil
}

// addRoleDelegation adds the requirement to write a role: its rules, or the verb escalate on it.
// An aggregated ClusterRole can come to hold any rule, so the API server requires all of them.
func (r *collector) addRoleDelegation(role *role) {
	rules := role.rules
	if len(role.selectors) > 0 {
		rules = slices.Concat(rules, fullAuthority)
	}

	instead := permissionOnRole(role.roleKey)
	instead.Namespace, instead.Verb = role.namespace, "escalate"
	r.result.Delegations = append(r.result.Delegations, Delegation{
		Namespace: role.namespace, Rules: rules, IsAggregated: len(role.selectors) > 0, Alternative: instead,
	})
}

// addBindingDelegation adds the requirement to write a binding: the rules of the role in the
// namespace of the binding, or the verb bind on the role there.
func (r *collector) addBindingDelegation(b *binding, rules map[roleKey][]rbacv1.PolicyRule) {
	key := referencedRole(b.ref, b.namespace)
	if key.kind != kindClusterRole && (key.kind != kindRole || b.namespace == "") {
		r.result.Errors = append(r.result.Errors, fmt.Errorf("%s: it cannot refer to kind %q",
			describeObject(b.kind, b.namespace, b.name), key.kind))
		return
	}

	delegation := Delegation{Namespace: b.namespace, IsAggregated: r.aggregated[key], Alternative: permissionOnRole(key)}
	delegation.Alternative.Namespace, delegation.Alternative.Verb = b.namespace, "bind"
	var known bool
	if delegation.Rules, known = rules[key]; !known {
		delegation.Err = fmt.Errorf("%s: it refers to %s, which does not exist: create that, or grant the verb bind on it",
			describeObject(b.kind, b.namespace, b.name), describeObject(key.kind, key.namespace, key.name))
	}

	r.result.Delegations = append(r.result.Delegations, delegation)
}

// permissionOnRole returns a permission on a role, without its verb and namespace.
func permissionOnRole(key roleKey) Permission {
	resource := "clusterroles"
	if key.kind == kindRole {
		resource = "roles"
	}
	return Permission{Group: rbacv1.GroupName, Resource: resource, Name: key.name}
}

// rulesByRole returns the rules of every role that a binding can refer to. Roles among the objects
// take precedence over those of the cluster, because they are written first.
func (r *collector) rulesByRole(own []role) map[roleKey][]rbacv1.PolicyRule {
	policy := r.opts.Policy
	if policy == nil {
		policy = &Policy{}
	}

	rules := policy.indexRulesByRole()
	gathered := map[roleKey][]rbacv1.PolicyRule{}
	for i := range own {
		rules[own[i].roleKey] = own[i].rules
		if len(own[i].selectors) > 0 {
			r.aggregated[own[i].roleKey] = true
			gathered[own[i].roleKey] = aggregateRules(&own[i], own, policy.ClusterRoles)
		}
	}

	maps.Copy(rules, gathered)
	return rules
}

// aggregateRules returns the rules that an aggregated ClusterRole will have.
func aggregateRules(into *role, own []role, existing []rbacv1.ClusterRole) []rbacv1.PolicyRule {
	rules := slices.Clone(into.rules)
	selects := func(with map[string]string) bool {
		return slices.ContainsFunc(into.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(with)) })
	}
	for i := range own {
		if own[i].kind == kindClusterRole && own[i].name != into.name && selects(own[i].labels) {
			rules = append(rules, own[i].rules...)
		}
	}

	for i := range existing {
		if existing[i].Name != into.name && selects(existing[i].Labels) {
			rules = append(rules, existing[i].Rules...)
		}
	}

	return rules
}
