package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Error returns the report: a header that tools match, a line for each gap, and a line for each
// object that could not be evaluated.
func (e *MissingError) Error() string {
	var parts []string
	if len(e.Gaps) > 0 {
		lines := make([]string, 0, len(e.Gaps))
		for i := range e.Gaps {
			lines = append(lines, "\n  "+e.Gaps[i].String())
		}
		slices.Sort(lines)
		parts = append(parts, "service account requires the following permissions to manage cluster extension:"+strings.Join(lines, ""))
	}

	for _, err := range e.Errors {
		parts = append(parts, "authorization evaluation error: "+err.Error())
	}
	return "pre-authorization failed: " + strings.Join(parts, "\n")
}

// String returns the gap's line in the report. The core API group is the empty list. Empty parts
// are left out.
func (g *Gap) String() string {
	parts := []string{fmt.Sprintf("Namespace:%q", g.Namespace)}
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", g.Rule.APIGroups},
		{"Resources", g.Rule.Resources},
		{"ResourceNames", g.Rule.ResourceNames},
		{"Verbs", g.Rule.Verbs},
		{"NonResourceURLs", g.Rule.NonResourceURLs},
	} {
		if len(part.values) > 0 {
			parts = append(parts, part.name+":["+strings.Join(part.values, ",")+"]")
		}
	}

	return strings.Join(parts, " ")
}

func sortUniqueErrors(errs []error) []error {
	byMessage := map[string]error{}
	for _, err := range errs {
		byMessage[err.Error()] = err
	}

	var result []error
	for _, message := range slices.Sorted(maps.Keys(byMessage)) {
		result = append(result, byMessage[message])
	}

	return result
}

// dimension is a list of a rule along which rules are merged.
type dimension func(*rbacv1.PolicyRule) *[]string

// dimensions are in the order of merging, so that rules that are granted together are on one line.
// Groups are not merged, because the core group has no name in a list.
var dimensions = []dimension{
	func(rule *rbacv1.PolicyRule) *[]string { return &rule.Verbs },
	func(rule *rbacv1.PolicyRule) *[]string { return &rule.ResourceNames },
	func(rule *rbacv1.PolicyRule) *[]string { return &rule.Resources },
	func(rule *rbacv1.PolicyRule) *[]string { return &rule.NonResourceURLs },
}

// compactRules returns the permissions in few rules. It leaves out permissions that another one
// includes.
func compactRules(missing map[Permission]struct{}) []Gap {
	var gaps []Gap
	for _, p := range slices.SortedFunc(maps.Keys(missing), comparePermissions) {
		if !isIncludedInOther(p, missing) {
			gaps = append(gaps, Gap{p.Namespace, p.toPolicyRule()})
		}
	}

	for _, along := range dimensions {
		gaps = mergeRulesAlong(gaps, along)
	}
	return gaps
}

// mergeRulesAlong merges rules that differ only in one list. A rule without the list is not merged,
// because it may mean every value.
func mergeRulesAlong(gaps []Gap, along dimension) []Gap {
	index := map[string]int{}
	var result []Gap
	for _, gap := range gaps {
		values := *along(&gap.Rule)
		rest := gap
		*along(&rest.Rule) = nil
		// Names and URLs have no control characters that could make two keys equal. If they
		// had, %q would quote them.
		key := fmt.Sprintf("%q %q %t", rest.Namespace, [][]string{
			rest.Rule.APIGroups, rest.Rule.Resources, rest.Rule.ResourceNames, rest.Rule.Verbs, rest.Rule.NonResourceURLs,
		}, len(values) > 0)
		i, found := index[key]
		if !found {
			index[key] = len(result)
			result = append(result, gap)
			continue
		}

		into := along(&result[i].Rule)
		*into = append(*into, values...)
	}

	for i := range result {
		values := along(&result[i].Rule)
		slices.Sort(*values)
		*values = slices.Compact(*values)
	}

	return result
}

// isIncludedInOther reports whether another permission of the set includes this one.
func isIncludedInOther(p Permission, set map[Permission]struct{}) bool {
	if p.URL != "" {
		return isURLIncludedInOther(p, set)
	}

	resources := []string{p.Resource, wildcard}
	if _, subresource, ok := strings.Cut(p.Resource, "/"); ok {
		resources = append(resources, wildcard+"/"+subresource)
	}

	for _, namespace := range []string{p.Namespace, ""} {
		for _, group := range []string{p.Group, wildcard} {
			for _, resource := range resources {
				if isIncludedForResource(p, Permission{Namespace: namespace, Group: group, Resource: resource}, set) {
					return true
				}
			}
		}
	}

	return false
}

// isIncludedForResource reports whether another permission of the set, for the resource of wider,
// includes p by its name and verb.
func isIncludedForResource(p, wider Permission, set map[Permission]struct{}) bool {
	for _, wider.Name = range []string{p.Name, ""} {
		for _, wider.Verb = range []string{p.Verb, wildcard} {
			if _, ok := set[wider]; ok && wider != p {
				return true
			}
		}
	}

	return false
}

func isURLIncludedInOther(p Permission, set map[Permission]struct{}) bool {
	for _, verb := range []string{p.Verb, wildcard} {
		same := Permission{URL: p.URL, Verb: verb}
		if _, ok := set[same]; ok && same != p {
			return true
		}
		for end := range len(p.URL) {
			wider := Permission{URL: p.URL[:end] + wildcard, Verb: verb}
			if _, ok := set[wider]; ok && wider != p {
				return true
			}
		}
	}

	return false
}
