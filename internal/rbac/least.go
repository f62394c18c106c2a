package rbac

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxHanding is how many permissions to hand on others are tried one by one whether they
// are needed. Bundles known to us have fewer than ten; of more, all are kept.
const maxHanding = 100

// Least returns the rules that an account needs to meet the requirements, sorted, and
// nothing that it could do without: without any one permission of them, Missing reports
// that one. Several requirements are those of objects that take one another's place.
//
// What roles among the objects hand on is covered by the same rules, for the verbs
// escalate and bind would let the account hand on more. They are given, for the one
// role, where its rules are not known: it is not among the objects, it gathers those of
// others, or it has more than can be looked at. Rules of the objects that themselves
// have these verbs make others needless, which are then left out.
//
// The error is a *MissingError without gaps when the requirements have errors.
func Least(required ...*Requirements) ([]Gap, error) {
	var errs []error
	for _, r := range required {
		errs = append(errs, r.Errors...)
	}

	if len(errs) > 0 {
		return nil, &MissingError{Errors: sortErrors(errs)}
	}

	closed := closed(required)
	needed := map[Permission]struct{}{}
	for _, p := range closed.Permissions {
		needed[p] = struct{}{}
	}

	handing := closed.handing()
	for i := range closed.Delegations {
		d := &closed.Delegations[i]
		if !slices.ContainsFunc(handing, func(p Permission) bool { return p.includes(d.Instead) }) {
			for p := range d.permissions() {
				needed[p] = struct{}{}
			}
		}
	}

	keep := maps.Clone(needed)
	for _, p := range handing {
		keep[p] = struct{}{}
	}

	if len(handing) <= maxHanding {
		for _, p := range handing {
			if _, ok := needed[p]; ok {
				continue
			}
			delete(keep, p)
			if Missing(closed, GrantedBy(compact(keep))) != nil {
				keep[p] = struct{}{}
			}
		}
	}

	grants := compact(keep)
	slices.SortStableFunc(grants, compareGaps)
	return grants, nil
}

// closed joins requirements to some all of whose delegations can be met by having the rules.
func closed(required []*Requirements) *Requirements {
	result := &Requirements{}
	var delegations []Delegation
	for _, r := range required {
		result.Permissions = append(result.Permissions, r.Permissions...)
		delegations = append(delegations, r.Delegations...)
	}

	left := float64(maxDelegated)
	for _, d := range delegations {
		total := 0.0
		for i := range d.Rules {
			total += size(&d.Rules[i])
		}

		if d.Err != nil || d.Gathers || total > left {
			result.Permissions = append(result.Permissions, d.Instead)
			continue
		}

		left -= total
		result.Delegations = append(result.Delegations, d)
	}

	return result
}

// handing are the permissions in the rules that are handed on which would let the
// account hand on what it has not, sorted.
func (r *Requirements) handing() []Permission {
	found := map[Permission]struct{}{}
	for i := range r.Delegations {
		for p := range r.Delegations[i].permissions() {
			if slices.ContainsFunc(r.Delegations, func(d Delegation) bool { return p.includes(d.Instead) }) {
				found[p] = struct{}{}
			}
		}
	}

	return slices.SortedFunc(maps.Keys(found), comparePermissions)
}

// permissions are those that the delegation hands on.
func (d *Delegation) permissions() iter.Seq[Permission] {
	return func(yield func(Permission) bool) {
		for i := range d.Rules {
			for p := range permissions(d.Namespace, &d.Rules[i]) {
				if p.URL != "" {
					p.Namespace = "" // as in need
				}
				if !yield(p) {
					return
				}
			}
		}
	}
}

// includes reports whether who has the permission has the other one.
func (p Permission) includes(other Permission) bool {
	if p.Namespace != "" && p.Namespace != other.Namespace {
		return false
	}
	holder, rule := p.rule(), other.rule()
	return covers(&holder, &rule)
}

// GrantedBy is what holds for an account that has these rules and no others.
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

// Unlimited reports whether who has the rules can come to have all others: they allow to
// write roles, or to bind them, that hold what the account does not.
func Unlimited(grants []Gap) bool {
	granted := GrantedBy(grants)
	return slices.ContainsFunc([]string{"escalate", "bind"}, func(verb string) bool {
		p := on(roleKey{kind: kindClusterRole})
		p.Verb = verb
		return granted.Allows(p)
	})
}
