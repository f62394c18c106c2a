package rbac

import (
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxDelegated is how many permissions of the roles and bindings of one set of objects
// are looked at one by one. Bundles known to us hand on fewer than 1,000. With the 100
// rules that an account commonly has, it is some 5 million comparisons, well under a
// second.
const maxDelegated = 50_000

// MissingError is what an account lacks. Its message is the report that a person, and
// tools of the field, read.
type MissingError struct {
	// Gaps are the missing rules, as compact as they can be said; none overlaps another.
	Gaps []Gap
	// Errors say what could not be judged; sorted by their messages, none twice.
	Errors []error
}

// Gap is a missing rule.
type Gap struct {
	// Namespace is where the rule must hold; empty means in the whole cluster.
	Namespace string
	// Rule is missing in all its parts.
	Rule rbacv1.PolicyRule
}

// Missing says what of the requirements is not granted: nil, or a *MissingError. All
// gaps are found at once. Granting them, and nothing else, leaves none.
func Missing(required *Requirements, granted *Granted) error {
	e := evaluation{granted: granted, missing: map[Permission]struct{}{}, left: maxDelegated, errs: slices.Clone(required.Errors)}
	for _, permission := range required.Permissions {
		e.need(permission)
	}

	for i := range required.Delegations {
		e.handOn(&required.Delegations[i])
	}

	if len(e.missing) == 0 && len(e.errs) == 0 {
		return nil
	}

	return &MissingError{Gaps: compact(e.missing), Errors: sortErrors(e.errs)}
}

type evaluation struct {
	granted *Granted
	missing map[Permission]struct{}
	// left is how many delegated permissions may still be looked at.
	left float64
	errs []error
}

func (e *evaluation) need(p Permission) {
	if e.granted.Allows(p) {
		return
	}
	if p.URL != "" {
		// A Role cannot hold it: only the whole cluster is of use to who grants it.
		p.Namespace = ""
	}

	e.missing[p] = struct{}{}
}

func (e *evaluation) handOn(d *Delegation) {
	if e.granted.Allows(d.Instead) {
		return
	}
	if d.Err != nil {
		e.errs = append(e.errs, d.Err)
		return
	}

	for i := range d.Rules {
		rule := &d.Rules[i]
		if e.granted.covers(d.Namespace, rule) {
			continue
		}
		if e.left -= size(rule); e.left < 0 {
			e.errs = append(e.errs, errors.New("the roles hand on too many permissions to look at each: grant the verbs escalate and bind on roles, or a rule with wildcards"))
			return
		}
		for p := range permissions(d.Namespace, rule) {
			e.need(p)
		}
	}
}
