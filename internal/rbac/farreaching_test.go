package rbac_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/internal/rbac"
)

func TestIsFarReaching(t *testing.T) {
	for _, c := range []struct {
		name string
		rule rbacv1.PolicyRule
		want bool
	}{
		{"read ConfigMaps", rbacv1.PolicyRule{Verbs: []string{"get", "list"}, Resources: []string{"configmaps"}}, false},
		{"named Secrets", rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}}, false},
		{"all Secrets", rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"configmaps", "secrets"}}, true},
		{"every verb", rbacv1.PolicyRule{Verbs: []string{"*"}, Resources: []string{"pods"}}, true},
		{"every resource", rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"*"}}, true},
		{"bind roles", rbacv1.PolicyRule{Verbs: []string{"bind"}, Resources: []string{"roles"}}, true},
		{"impersonate", rbacv1.PolicyRule{Verbs: []string{"impersonate"}, Resources: []string{"users"}}, true},
		{"a path", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rbac.IsFarReaching(&c.rule); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}
