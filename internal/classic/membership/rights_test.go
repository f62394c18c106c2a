package membership_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// Roles of the operator's namespace grant no rights elsewhere, unless the ClusterServiceVersion requests them.
func TestRightsOf(t *testing.T) {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op"}}
	strategy := &csv.Spec.InstallStrategy.StrategySpec
	strategy.Permissions = []v1alpha1.StrategyDeploymentPermissions{
		builder.Permissions("one", "get,list core pods", "get core secrets mine"), builder.Permissions("two", "* apps deployments"), builder.Permissions("", "get core events"), builder.Permissions("one", "watch core pods"),
	}
	strategy.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{builder.Permissions("wide", "* * *")}
	many := strings.TrimSuffix(strings.Repeat("get,", 50_001), ",") + " core pods"
	const uncovered = "the permissions of the ClusterServiceVersion do not cover the rule "
	for name, c := range map[string]struct {
		rules    []string
		subjects []rbacv1.Subject
		edit     func(*rbacv1.RoleBinding)
		// role and binding are the reasons why these are rejected, or the start of the reasons.
		role, binding string
	}{
		"requested rights":              {rules: []string{"get,list core pods", "get core secrets mine"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one")}},
		"less":                          {rules: []string{"get core pods x"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one")}},
		"of two entries of one account": {rules: []string{"get,watch core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one")}},
		"below a wildcard":              {rules: []string{"delete apps deployments"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "two")}},
		"the account without a name":    {rules: []string{"get core events"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "default")}},
		"another verb":                  {rules: []string{"delete core pods"}, role: uncovered + `{"verbs":["delete"],"apiGroups":[""],"resources":["pods"]}`},
		"a wildcard":                    {rules: []string{"get,list core pods", "* * *"}, role: uncovered + `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`},
		"more names":                    {rules: []string{"get core secrets mine,yours"}, role: uncovered},
		"all names":                     {rules: []string{"get core secrets"}, role: uncovered},
		"cluster-wide requested rights are already granted there": {rules: []string{"get core nodes"}, role: uncovered},
		"too many permissions": {rules: []string{many}, role: "it grants more than 50000 single permissions, too many to check"},
		"an account of the operator that does not request it": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one"), builder.ServiceAccountSubject("ns", "two")}, binding: `for ServiceAccount "two": ` + uncovered,
		},
		"another account": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "other")},
			binding: `the ClusterServiceVersion asks for no permissions for ServiceAccount "other"`,
		},
		"an account that requests cluster-wide rights only": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "wide")},
			binding: `the ClusterServiceVersion asks for no permissions for ServiceAccount "wide"`,
		},
		"an account of another namespace": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one"), builder.ServiceAccountSubject("mine", "one")},
			binding: `its subject ServiceAccount "one" is not a ServiceAccount of namespace ns`,
		},
		"an account of any namespace": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("", "one")}, binding: `its subject ServiceAccount "one" is no`,
		},
		"a person": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}}, binding: `its subject User "eve" is no`,
		},
		"everybody": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
			binding: `its subject Group "system:authenticated" is no`,
		},
		"nobody": {rules: []string{"get core pods"}, binding: "it has no subjects"},
		"a ClusterRole": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one")},
			edit: func(b *rbacv1.RoleBinding) { b.RoleRef.Kind = "ClusterRole" }, binding: `the ClusterRole "r" that it binds is not copied`,
		},
		"another Role": {
			rules: []string{"get core pods"}, subjects: []rbacv1.Subject{builder.ServiceAccountSubject("ns", "one")},
			edit: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "cluster-admin" }, binding: `the Role "cluster-admin" that it binds is not copied`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			role, binding := builder.Role(metav1.ObjectMeta{Namespace: "ns", Name: "r"}, builder.Rules(c.rules...), c.subjects...)
			if c.edit != nil {
				c.edit(binding)
			}
			if c.role != "" {
				c.binding = `the Role "r" that it binds is not copied`
			}
			rights := membership.RightsOf(csv, []rbacv1.Role{*role}, []rbacv1.RoleBinding{*binding})
			refused := map[string]string{}
			for _, r := range rights.Refused {
				refused[r.Kind+" "+r.Name] = r.Reason.Error()
			}
			check := func(kind, want string, copied int) {
				got, ok := refused[kind+" r"]
				if ok != (want != "") || !strings.HasPrefix(got, want) || ok == (copied == 1) {
					t.Errorf("%s: got %d copies, rejected because %q; want %q", kind, copied, got, want)
				}
			}
			check("Role", c.role, len(rights.Roles))
			check("RoleBinding", c.binding, len(rights.Bindings))
		})
	}
}
