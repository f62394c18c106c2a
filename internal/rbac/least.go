package rbac

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxEscalatingPermissions is how many escalating permissions are tested one by one for whether
// they are needed. Known bundles have fewer than ten. If there are more, all are kept.
const maxEscalatingPermissions = 100

// Least returns the minimal rules that meet the requirements, sorted: without any one permission
// of them, Missing reports that one. Several requirements are those of objects that replace each
// other.
//
// Rules that roles among the objects delegate are granted directly, because the verbs escalate and
// bind would let the account delegate more. Those verbs are granted, for the one role, only if its
// rules are unknown: the role is not among the objects, is aggregated, or has too many rules to
// expand. If rules of the objects contain these verbs themselves, the permissions that they make
// redundant are left out.
//
// The error is a *MissingError without gaps if the requirements have errors.
func Least(required ...*Requirements) ([]Gap, error) {
	var errs []error
	for _, r := range required {
		errs = append(errs, r.Errors...)
	}

	if len(errs) > 0 {
		return nil, &MissingError{Errors: sortUniqueErrors(errs)}
	}

	merged := mergeRequirements(required)
	needed := map[Permission]struct{}{}
	for _, p := range merged.Permissions {
		needed[p] = struct{}{}
	}

	escalating := merged.findEscalatingPermissions()
	for i := range merged.Delegations {
		d := &merged.Delegations[i]
		if !slices.ContainsFunc(escalating, func(p Permission) bool { return p.includesPermission(d.Alternative) }) {
			for p := range d.delegatedPermissions() {
				needed[p] = struct{}{}
			}
		}
	}

	keep := maps.Clone(needed)
	for _, p := range escalating {
		keep[p] = struct{}{}
	}

	if len(escalating) <= maxEscalatingPermissions {
		for _, p := range escalating {
			if _, ok := needed[p]; ok {
				continue
			}
			delete(keep, p)
			if Missing(merged, GrantedBy(compactRules(keep))) != nil {
				keep[p] = struct{}{}
			}
		}
	}

	grants := compactRules(keep)
	slices.SortStableFunc(grants, compareGaps)
	return grants, nil
}

// mergeRequirements merges requirements. Every delegation of the result can be met by having its
// rules.
func mergeRequirements(required []*Requirements) *Requirements {
	result := &Requirements{}
	var delegations []Delegation
	for _, r := range required {
		result.Permissions = append(result.Permissions, r.Permissions...)
		delegations = append(delegations, r.Delegations...)
	}

	left := float64(maxExpandedPermissions)
	for _, d := range delegations {
		total := 0.0
		for i := range d.Rules {
			total += countPermissions(&d.Rules[i])
		}

		if d.Err != nil || d.IsAggregated || total > left {
			result.Permissions = append(result.Permissions, d.Alternative)
			continue
		}

		left -= total
		result.Delegations = append(result.Delegations, d)
	}

	return result
}

// findEscalatingPermissions returns the delegated permissions that would let the account delegate
// what it does not have, sorted.
func (r *Requirements) findEscalatingPermissions() []Permission {
	found := map[Permission]struct{}{}
	for i := range r.Delegations {
		for p := range r.Delegations[i].delegatedPermissions() {
			if slices.ContainsFunc(r.Delegations, func(d Delegation) bool { return p.includesPermission(d.Alternative) }) {
				found[p] = struct{}{}
			}
		}
	}

	return slices.SortedFunc(maps.Keys(found), comparePermissions)
}

// delegatedPermissions yields the permissions that are delegated.
func (d *Delegation) delegatedPermissions() iter.Seq[Permission] {
	return func(yield func(Permission) bool) {
		for i := range d.Rules {
			for p := range expandPermissions(d.Namespace, &d.Rules[i]) {
				if p.URL != "" {
					p.Namespace = "" // as in requirePermission
				}
				if !yield(p) {
					return
				}
			}
		}
	}
}

// includesPermission reports whether the permission grants the other one.
func (p Permission) includesPermission(other Permission) bool {
	if p.Namespace != "" && p.Namespace != other.Namespace {
		return false
	}
	holder, rule := p.toPolicyRule(), other.toPolicyRule()
	return ruleCovers(&holder, &rule)
}

// GrantedBy returns the rules that apply to an account that has only the given ones.
func GrantedBy(grants []Gap) *Granted {
	granted := &Granted{namespaced: map[string][]rbacv1.PolicyRule{}}
	for _, grant := range grants {
		if grant.Namespace == "" {
			granted.cluster = append(granted.cluster, grant.Rule)
			continue
		}
		granted.namespaced[grant.Namespace] = append(granted.namespaced[grant.Namespace], grant.Rule)
	}

	return granted
}

func compareGaps(a, b Gap) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), slices.Compare(a.Rule.APIGroups, b.Rule.APIGroups),
		slices.Compare(a.Rule.Resources, b.Rule.Resources), slices.Compare(a.Rule.ResourceNames, b.Rule.ResourceNames),
		slices.Compare(a.Rule.NonResourceURLs, b.Rule.NonResourceURLs), slices.Compare(a.Rule.Verbs, b.Rule.Verbs))
}

// CanEscalate reports whether an account with the rules can obtain all others: it may write or bind
// roles with rules that it does not have.
func CanEscalate(grants []Gap) bool {
	granted := GrantedBy(grants)
	return slices.ContainsFunc([]string{"escalate", "bind"}, func(verb string) bool {
		p := permissionOnRole(roleKey{kind: kindClusterRole})
		p.Verb = verb
		return granted.Allows(p)
	})
}
