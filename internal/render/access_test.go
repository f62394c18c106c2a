package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

func TestAccessRoles(t *testing.T) {
	b := &bundle.Bundle{Package: "kettle", CRDs: []unstructured.Unstructured{
		definition("tea.example.com", "pots", "status", "scale"), definition("tea.example.com", "cups"), definition("example.com", "spoons", "status"),
		definition("", "broken"),
	}}
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	spoons, pots := []string{"spoons", "spoons/status"}, []string{"cups", "pots", "pots/scale", "pots/status"}
	write := []string{"get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"}
	want := []struct {
		name, label string
		rules       []rbacv1.PolicyRule
	}{
		{"kettle.view", "rbac.authorization.k8s.io/aggregate-to-view", []rbacv1.PolicyRule{
			rule("example.com", spoons, "get", "list", "watch"),
			rule("tea.example.com", pots, "get", "list", "watch"),
		}},
		{"kettle.edit", "rbac.authorization.k8s.io/aggregate-to-edit", []rbacv1.PolicyRule{
			rule("example.com", []string{"spoons"}, write...),
			rule("example.com", []string{"spoons/status"}, "get", "list", "watch"),
			rule("tea.example.com", []string{"cups", "pots"}, write...),
			rule("tea.example.com", []string{"pots/scale"}, "get", "list", "watch", "patch", "update"),
			rule("tea.example.com", []string{"pots/status"}, "get", "list", "watch"),
		}},
		{"kettle.admin", "rbac.authorization.k8s.io/aggregate-to-admin", []rbacv1.PolicyRule{
			rule("example.com", spoons, "*"),
			rule("tea.example.com", pots, "*"),
		}},
	}

	got := renderAccessRoles(b)
	if len(got) != len(want) {
		t.Fatalf("got %d roles, want %d", len(got), len(want))
	}

	for i, w := range want {
		role := got[i].(*rbacv1.ClusterRole)
		if diff := cmp.Diff(map[string]string{w.label: "true"}, role.Labels); diff != "" || role.Name != w.name {
			t.Errorf("role %s, labels (-want +got):\n%s", role.Name, diff)
		}
		if diff := cmp.Diff(w.rules, role.Rules); diff != "" {
			t.Errorf("rules of %s (-want +got):\n%s", w.name, diff)
		}
	}

	if got := renderAccessRoles(&bundle.Bundle{Package: "kettle"}); len(got) > 0 {
		t.Errorf("got %d roles for a bundle without CRDs, want none", len(got))
	}
}

// definition returns a CRD with subresources in its second version.
func definition(group, plural string, subresources ...string) unstructured.Unstructured {
	have := map[string]any{}
	for _, name := range subresources {
		have[name] = map[string]any{}
	}
	return unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": group, "names": map[string]any{"plural": plural},
		"versions": []any{map[string]any{"name": "v1"}, map[string]any{"name": "v2", "subresources": have}},
	}}}
}
