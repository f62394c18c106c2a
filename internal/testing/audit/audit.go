// Package audit compares the rights of service accounts in RBAC with the requests in the audit
// log of the API server. A right that no request used may not be needed.
//
// It is only for tests. No package of the product imports it.
package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxLineBytes bounds a line of the audit log. An event at level Metadata has a few kilobytes.
const maxLineBytes = 4 << 20

// Request is a kind of request that a service account sent.
type Request struct {
	// Account is the user name of the service account.
	Account string
	Verb    string
	Group   string
	// Resource has the form "pods" or "pods/log".
	Resource string
	Name     string
}

// Requests is the set of requests in audit logs.
type Requests map[Request]bool

// auditEvent has the fields of an audit event that are compared.
type auditEvent struct {
	Verb             string
	User             auditUser
	ImpersonatedUser *auditUser
	ObjectRef        *struct {
		Resource, Subresource, Name, APIGroup string
	}
	Annotations map[string]string
}

type auditUser struct {
	Username string
	Groups   []string
}

// accountPrefix is the prefix of the user name of every service account.
const accountPrefix = "system:serviceaccount:"

// Add adds the allowed requests of an audit log. A request with impersonation counts for the
// impersonated account, and as "impersonate" for the account that sent it.
func (r Requests) Add(log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLineBytes)
	for number := 1; lines.Scan(); number++ {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d of the audit log: %w", number, err)
		}
		r.addEvent(&e)
	}

	return lines.Err()
}

func (r Requests) addEvent(e *auditEvent) {
	account := e.User.Username
	if e.ImpersonatedUser != nil {
		r[impersonationRequest(account, e.ImpersonatedUser)] = true
		account = e.ImpersonatedUser.Username
	}
	if e.ObjectRef == nil || e.Annotations["authorization.k8s.io/decision"] != "allow" {
		return
	}

	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}

	r[Request{Account: account, Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: resource, Name: e.ObjectRef.Name}] = true
}

// impersonationRequest returns the request that the API server authorizes before a request under
// impersonation.
func impersonationRequest(account string, as *auditUser) Request {
	request := Request{Account: account, Verb: "impersonate", Resource: "users", Name: as.Username}
	if name, ok := strings.CutPrefix(as.Username, accountPrefix); ok {
		_, request.Name, _ = strings.Cut(name, ":")
		request.Resource = "serviceaccounts"
	}

	return request
}

// Right is one verb on one resource in a role.
type Right struct {
	// Role is the name of the Role or ClusterRole.
	Role                  string
	Verb, Group, Resource string
}

// String returns the right as "ROLE: VERB RESOURCE.GROUP".
func (r Right) String() string {
	return fmt.Sprintf("%s: %s %s", r.Role, r.Verb, formatResource(r.Resource, r.Group))
}

// Resource is a resource in a role.
type Resource struct {
	// Role is the name of the Role or ClusterRole.
	Role            string
	Group, Resource string
}

// String returns the resource as "ROLE: RESOURCE.GROUP".
func (r Resource) String() string { return r.Role + ": " + formatResource(r.Resource, r.Group) }

func formatResource(resource, group string) string {
	if group == "" {
		return resource
	}

	return resource + "." + group
}

// Binding is a role with the user names of its service accounts.
type Binding struct {
	Role     string
	Rules    []rbacv1.PolicyRule
	Accounts []string
}

// Unused returns the rights of roles that none of their accounts used, sorted. It ignores rules
// for non-resource URLs.
func (r Requests) Unused(bindings []Binding) []Right {
	var unused []Right
	for i := range bindings {
		for j := range bindings[i].Rules {
			unused = append(unused, r.findUnusedOfRule(&bindings[i], &bindings[i].Rules[j])...)
		}
	}

	slices.SortFunc(unused, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })

	return slices.Compact(unused)
}

// UnusedResources returns the resources of roles on which none of their accounts used any right,
// sorted. The verbs that a program uses may depend on timing, for example if a conflict makes it
// retry an update. The resources do not.
func (r Requests) UnusedResources(bindings []Binding) []Resource {
	isUsed := map[Resource]bool{}
	for i := range bindings {
		for j := range bindings[i].Rules {
			rule := &bindings[i].Rules[j]
			for _, group := range rule.APIGroups {
				for _, name := range rule.Resources {
					resource := Resource{Role: bindings[i].Role, Group: group, Resource: name}
					isUsed[resource] = isUsed[resource] || slices.ContainsFunc(rule.Verbs, func(verb string) bool {
						return r.isUsedBy(Right{Verb: verb, Group: group, Resource: name}, bindings[i].Accounts, rule.ResourceNames)
					})
				}
			}
		}
	}

	var unused []Resource
	for resource, used := range isUsed {
		if !used {
			unused = append(unused, resource)
		}
	}

	slices.SortFunc(unused, func(a, b Resource) int { return cmp.Compare(a.String(), b.String()) })

	return unused
}

func (r Requests) findUnusedOfRule(binding *Binding, rule *rbacv1.PolicyRule) []Right {
	var unused []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				right := Right{Role: binding.Role, Verb: verb, Group: group, Resource: resource}
				if !r.isUsedBy(right, binding.Accounts, rule.ResourceNames) {
					unused = append(unused, right)
				}
			}
		}
	}

	return unused
}

// isUsedBy reports whether one of the accounts sent a request that the right allows. No names
// allow every name. A watch also uses the right to list, as clients list if the API server does
// not stream the initial state.
func (r Requests) isUsedBy(right Right, accounts, names []string) bool {
	for request := range r {
		if slices.Contains(accounts, request.Account) &&
			(matchesRuleElement(right.Verb, request.Verb) || right.Verb == "list" && request.Verb == "watch") && matchesRuleElement(right.Group, request.Group) && matchesRuleElement(right.Resource, request.Resource) &&
			(len(names) == 0 || slices.Contains(names, request.Name)) {
			return true
		}
	}

	return false
}

// matchesRuleElement reports whether an element of a rule allows a value.
func matchesRuleElement(allowed, value string) bool { return allowed == "*" || allowed == value }
