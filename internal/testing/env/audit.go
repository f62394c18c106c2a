package env

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy has the API server log what service accounts ask for, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

const auditLog = "audit.log"

// audit has the API server write an audit log into a folder.
func audit(environment *envtest.Environment, folder string) error {
	policy := filepath.Join(folder, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(folder, auditLog))
	return nil
}

// auditEvent is what is read of an entry of the audit log.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// Use is one right, as somebody used it.
type Use struct{ Verb, Group, Resource, Namespace, Name string }

// UsedRights returns the rights that a service account has used so far, and those that it was refused, by the audit
// log of the API server. A request that it made as another service account used the right to impersonate that one.
func UsedRights(t testing.TB, namespace, account string) (used, refused map[Use]bool) {
	t.Helper()
	Start(t)
	file, err := os.Open(filepath.Join(shared.folder, auditLog))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	used, refused = map[Use]bool{}, map[Use]bool{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event auditEvent
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			break // The last line is still being written.
		}
		use, ok := event.use()
		switch {
		case !ok || event.User.Username != fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account):
		case event.ImpersonatedUser == nil && event.Annotations["authorization.k8s.io/decision"] == "forbid":
			refused[use] = true
		default:
			used[use] = true
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return used, refused
}

// use returns the right that a request used; false for requests that are not about resources.
func (e *auditEvent) use() (Use, bool) {
	if e.ImpersonatedUser != nil {
		rest, ok := strings.CutPrefix(e.ImpersonatedUser.Username, "system:serviceaccount:")
		namespace, name, _ := strings.Cut(rest, ":")
		return Use{Verb: "impersonate", Resource: "serviceaccounts", Namespace: namespace, Name: name}, ok
	}
	if e.ObjectRef == nil {
		return Use{}, false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Use{Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name}, true
}

// UnusedRules returns, in words and sorted, each verb on each resource that the rules of a role give and that no
// request used. The namespace is that of a Role, and empty for a ClusterRole. A watch uses the right to list too:
// clients list where an API server does not stream what there is.
func UnusedRules(used map[Use]bool, namespace string, rules []rbacv1.PolicyRule) []string {
	var unused []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !isUsed(used, Use{Verb: verb, Group: group, Resource: resource, Namespace: namespace}, rule.ResourceNames) {
						unused = append(unused, strings.Join(append([]string{verb, resource + "." + group}, rule.ResourceNames...), " "))
					}
				}
			}
		}
	}
	slices.Sort(unused)
	return slices.Compact(unused)
}

func isUsed(used map[Use]bool, right Use, names []string) bool {
	for use := range used {
		sameVerb := use.Verb == right.Verb || use.Verb == "watch" && right.Verb == "list"
		if sameVerb && use.Group == right.Group && use.Resource == right.Resource &&
			(right.Namespace == "" || use.Namespace == right.Namespace) && (len(names) == 0 || slices.Contains(names, use.Name)) {
			return true
		}
	}
	return false
}
