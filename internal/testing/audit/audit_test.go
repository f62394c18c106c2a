package audit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
)

const operator = "system:serviceaccount:system:operator"

// log is an audit log, reduced to the fields that are read.
const log = `
{"verb":"list","user":{"username":"system:serviceaccount:system:operator"},"objectRef":{"resource":"pods"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"delete","user":{"username":"system:serviceaccount:system:operator"},"objectRef":{"resource":"pods","name":"a"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"patch","user":{"username":"system:serviceaccount:system:operator"},"objectRef":{"resource":"widgets","subresource":"status","apiGroup":"example.com","name":"one"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"create","user":{"username":"system:serviceaccount:system:operator"},"impersonatedUser":{"username":"system:serviceaccount:tenant:installer"},"objectRef":{"resource":"secrets","name":"s"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"watch","user":{"username":"system:serviceaccount:system:operator"},"objectRef":{"resource":"services"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"system:serviceaccount:system:operator"},"requestURI":"/version","annotations":{"authorization.k8s.io/decision":"allow"}}
`

func TestUnused(t *testing.T) {
	rule := func(verb, group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	requests := audit.Requests{}
	if err := requests.Add(strings.NewReader(strings.TrimSpace(log))); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		rule rbacv1.PolicyRule
		used bool
	}{
		{"a request that was made", rule("list", "", "pods"), true},
		{"another verb", rule("watch", "", "pods"), false},
		{"the list before a watch", rule("list", "", "services"), true},
		{"another group", rule("list", "example.com", "pods"), false},
		{"a request that was refused", rule("delete", "", "pods"), false},
		{"any verb", rule("*", "", "pods"), true},
		{"any resource of any group", rule("list", "*", "*"), true},
		{"a subresource", rule("patch", "example.com", "widgets/status"), true},
		{"its resource", rule("patch", "example.com", "widgets"), false},
		{"its name", rule("patch", "example.com", "widgets/status", "one"), true},
		{"another name", rule("patch", "example.com", "widgets/status", "two"), false},
		{"an impersonation", rule("impersonate", "", "serviceaccounts"), true},
		{"an impersonation of another account", rule("impersonate", "", "serviceaccounts", "other"), false},
		{"a request under impersonation", rule("create", "", "secrets"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			binding := audit.Binding{Role: "operator", Rules: []rbacv1.PolicyRule{test.rule}, Accounts: []string{operator}}
			if unused := requests.Unused([]audit.Binding{binding}); (len(unused) == 0) != test.used {
				t.Errorf("Unused returned %v, want used %t", unused, test.used)
			}
		})
	}
}

func TestUnusedIsSortedAndNamesTheRole(t *testing.T) {
	binding := audit.Binding{Role: "operator", Accounts: []string{operator}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
		{Verbs: []string{"watch", "get"}, APIGroups: []string{"example.com", ""}, Resources: []string{"widgets"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"widgets"}},
	}}

	var got []string
	for _, right := range (audit.Requests{}).Unused([]audit.Binding{binding}) {
		got = append(got, right.String())
	}

	want := []string{
		"operator: get widgets", "operator: get widgets.example.com", "operator: watch widgets", "operator: watch widgets.example.com",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unused rights (-want +got)\n%s", diff)
	}
}

func TestUnusedResources(t *testing.T) {
	requests := audit.Requests{}
	if err := requests.Add(strings.NewReader(strings.TrimSpace(log))); err != nil {
		t.Fatal(err)
	}

	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"pods", "secrets"}},
		{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"patch"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets", "widgets/status"}},
	}

	var got []string
	for _, resource := range requests.UnusedResources([]audit.Binding{{Role: "operator", Rules: rules, Accounts: []string{operator}}}) {
		got = append(got, resource.String())
	}

	if diff := cmp.Diff([]string{"operator: secrets", "operator: widgets.example.com"}, got); diff != "" {
		t.Errorf("unused resources (-want +got)\n%s", diff)
	}
}

func TestAddRefusesWhatIsNoAuditLog(t *testing.T) {
	err := audit.Requests{}.Add(strings.NewReader("{}\nnot JSON\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2 of the audit log") {
		t.Errorf("got error %v, want one that names line 2", err)
	}
}
