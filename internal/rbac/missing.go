package rbac

import (
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxExpandedPermissions is how many delegated permissions of a set of objects are checked one by
// one. Known bundles delegate fewer than 1,000. With the 100 rules that an account commonly has,
// it takes about 5 million comparisons, well under a second.
const maxExpandedPermissions = 50_000

// MissingError is the permissions that an account lacks. People and tools read its message.
type MissingError struct {
	// Gaps are the missing rules, as few as possible. None overlaps another.
	Gaps []Gap
	// Errors are the objects that could not be evaluated, sorted by message, without duplicates.
	Errors []error
}

// Gap is a missing rule.
type Gap struct {
	// Namespace is where the rule is needed. Empty means the whole cluster.
	Namespace string
	// Rule is missing in all its parts.
	Rule rbacv1.PolicyRule
}

// Missing returns a *MissingError with all requirements that are not granted, or nil. Granting all
// its gaps leaves none.
func Missing(required *Requirements, granted *Granted) error {
	e := evaluation{granted: granted, missing: map[Permission]struct{}{}, remaining: maxExpandedPermissions, errs: slices.Clone(required.Errors)}
	for _, permission := range required.Permissions {
		e.requirePermission(permission)
	}

	for i := range required.Delegations {
		e.requireDelegation(&required.Delegations[i])
	}

	if len(e.missing) == 0 && len(e.errs) == 0 {
		return nil
	}

	return &MissingError{Gaps: compactRules(e.missing), Errors: sortUniqueErrors(e.errs)}
}

type evaluation struct {
	granted *Granted
	missing map[Permission]struct{}
	// remaining is how many delegated permissions may still be checked.
	remaining float64
	errs      []error
}

func (e *evaluation) requirePermission(p Permission) {
	if e.granted.Allows(p) {
		return
	}
	if p.URL != "" {
		// A Role cannot contain it: it must be granted in the whole cluster.
		p.Namespace = ""
	}

	e.missing[p] = struct{}{}
}

func (e *evaluation) requireDelegation(d *Delegation) {
	if e.granted.Allows(d.Alternative) {
		return
	}
	if d.Err != nil {
		e.errs = append(e.errs, d.Err)
		return
	}

	for i := range d.Rules {
		rule := &d.Rules[i]
		if e.granted.hasCoveringRule(d.Namespace, rule) {
			continue
		}
		if e.remaining -= countPermissions(rule); e.remaining < 0 {
			e.errs = append(e.errs, errors.New("the roles hand on too many permissions to look at each: grant the verbs escalate and bind on roles, or a rule with wildcards"))
			return
		}
		for p := range expandPermissions(d.Namespace, rule) {
			e.requirePermission(p)
		}
	}
}
