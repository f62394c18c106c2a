// Package audit compares the rights that RBAC gives to service accounts with the requests that they made, as the audit
// log of the API server recorded them. A right that no request used is one that the account may not need.
//
// It is for tests only. No room of the product imports it.
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

// maxLine bounds a line of the audit log, in bytes. An event at level Metadata has a few kilobytes.
const maxLine = 4 << 20

// Request is a kind of request that a service account made.
type Request struct {
	// Account is the user name of the service account.
	Account string
	Verb    string
	Group   string
	// Resource has the form "pods" or "pods/log".
	Resource string
	Name     string
}

// Requests is the set of requests that audit logs recorded.
type Requests map[Request]bool

// event is the part of an audit event that is compared.
type event struct {
	Verb             string
	User             subject
	ImpersonatedUser *subject
	ObjectRef        *struct {
		Resource, Subresource, Name, APIGroup string
	}
	Annotations map[string]string
}

type subject struct {
	Username string
	Groups   []string
}

// accountPrefix begins the user name of every service account.
const accountPrefix = "system:serviceaccount:"

// Add adds the requests of an audit log that were allowed. A request under impersonation is one for the account that was
// impersonated, and counts as "impersonate" for the one that made it.
func (r Requests) Add(log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d of the audit log: %w", number, err)
		}
		r.add(&e)
	}

	return lines.Err()
}

func (r Requests) add(e *event) {
	account := e.User.Username
	if e.ImpersonatedUser != nil {
		r[impersonation(account, e.ImpersonatedUser)] = true
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

// impersonation returns the request that the API server authorizes before a request under impersonation.
func impersonation(account string, as *subject) Request {
	request := Request{Account: account, Verb: "impersonate", Resource: "users", Name: as.Username}
	if name, ok := strings.CutPrefix(as.Username, accountPrefix); ok {
		_, request.Name, _ = strings.Cut(name, ":")
		request.Resource = "serviceaccounts"
	}

	return request
}

// Right is one verb on one resource that a role allows.
type Right struct {
	// Role is the name of the Role or ClusterRole.
	Role                  string
	Verb, Group, Resource string
}

// String returns the right as "ROLE: VERB RESOURCE.GROUP".
func (r Right) String() string {
	return fmt.Sprintf("%s: %s %s", r.Role, r.Verb, resourceName(r.Resource, r.Group))
}

// Resource is a resource on which a role gives rights.
type Resource struct {
	// Role is the name of the Role or ClusterRole.
	Role            string
	Group, Resource string
}

// String returns the resource as "ROLE: RESOURCE.GROUP".
func (r Resource) String() string { return r.Role + ": " + resourceName(r.Resource, r.Group) }

func resourceName(resource, group string) string {
	if group == "" {
		return resource
	}

	return resource + "." + group
}

// Binding is a role with the user names of the service accounts that have it.
type Binding struct {
	Role     string
	Rules    []rbacv1.PolicyRule
	Accounts []string
}

// Unused returns the rights of roles that none of their accounts used, sorted. Rules on URLs that are no resources are
// passed over.
func (r Requests) Unused(bindings []Binding) []Right {
	var unused []Right
	for i := range bindings {
		for j := range bindings[i].Rules {
			unused = append(unused, r.unusedOfRule(&bindings[i], &bindings[i].Rules[j])...)
		}
	}

	slices.SortFunc(unused, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })

	return slices.Compact(unused)
}

// UnusedResources returns the resources of roles on which none of their accounts used any right, sorted. Which verbs a
// program uses may depend on timing, such as whether a conflict made it update an object; which resources it uses does not.
func (r Requests) UnusedResources(bindings []Binding) []Resource {
	isUsed := map[Resource]bool{}
	for i := range bindings {
		for j := range bindings[i].Rules {
			rule := &bindings[i].Rules[j]
			for _, group := range rule.APIGroups {
				for _, name := range rule.Resources {
					resource := Resource{Role: bindings[i].Role, Group: group, Resource: name}
					isUsed[resource] = isUsed[resource] || slices.ContainsFunc(rule.Verbs, func(verb string) bool {
						return r.hasUse(Right{Verb: verb, Group: group, Resource: name}, bindings[i].Accounts, rule.ResourceNames)
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

func (r Requests) unusedOfRule(binding *Binding, rule *rbacv1.PolicyRule) []Right {
	var unused []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				right := Right{Role: binding.Role, Verb: verb, Group: group, Resource: resource}
				if !r.hasUse(right, binding.Accounts, rule.ResourceNames) {
					unused = append(unused, right)
				}
			}
		}
	}

	return unused
}

// hasUse reports whether one of the accounts made a request that the right allows. No names allow every name. A watch
// uses the right to list too: clients list where the API server does not stream what there is.
func (r Requests) hasUse(right Right, accounts, names []string) bool {
	for request := range r {
		if slices.Contains(accounts, request.Account) &&
			(matches(right.Verb, request.Verb) || right.Verb == "list" && request.Verb == "watch") && matches(right.Group, request.Group) && matches(right.Resource, request.Resource) &&
			(len(names) == 0 || slices.Contains(names, request.Name)) {
			return true
		}
	}

	return false
}

// matches reports whether an element of a rule allows a value.
func matches(allowed, value string) bool { return allowed == "*" || allowed == value }
