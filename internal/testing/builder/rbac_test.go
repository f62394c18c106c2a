package builder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestRules(t *testing.T) {
	want := []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list"}, APIGroups: []string{"", "operators.coreos.com"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"core"}},
	}
	if diff := cmp.Diff(want, Rules("get,list core,operators.coreos.com *", "* core secrets core")); diff != "" {
		t.Errorf("Rules (-want +got):\n%s", diff)
	}
}
