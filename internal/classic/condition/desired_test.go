package condition

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

func TestNeedsCondition(t *testing.T) {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op", UID: "1"}}
	copied := csv.DeepCopy()
	copied.Labels = map[string]string{csvinfo.LabelCopiedFrom: "other"}
	yes := true
	ownedBy := func(uid string) *operatorsv2.OperatorCondition {
		c := &operatorsv2.OperatorCondition{}
		c.Spec.ServiceAccounts = []string{"default"}
		if uid != "" {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: v1alpha1.ClusterServiceVersionKind, Name: "op", Controller: &yes}}
			c.OwnerReferences[0].UID = csv.UID
			if uid != "1" {
				c.OwnerReferences[0].UID = "2"
			}
		}
		return c
	}
	outdated := ownedBy("1")
	outdated.Spec.Deployments = []string{"former"}
	for name, c := range map[string]struct {
		csv   *v1alpha1.ClusterServiceVersion
		found *operatorsv2.OperatorCondition
		want  bool
	}{
		"no OperatorCondition":                {csv, nil, true},
		"a copied CSV has none":               {copied, nil, false},
		"it is up to date":                    {csv, ownedBy("1"), false},
		"it has other Deployments":            {csv, outdated, true},
		"it has no owner":                     {csv, ownedBy(""), true},
		"it belongs to a deleted predecessor": {csv, ownedBy("2"), false},
	} {
		if got := needsCondition(c.csv, c.found); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

func TestDecideAccess(t *testing.T) {
	condition := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op", UID: "1"}}
	condition.Spec.ServiceAccounts = []string{"a", "b", "a"}
	yes := true
	owned := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: &yes}}}
	role := &rbacv1.Role{ObjectMeta: owned, Rules: []rbacv1.PolicyRule{newAccessRule(condition)}}
	binding := &rbacv1.RoleBinding{ObjectMeta: owned, Subjects: newSubjects(condition)}
	if len(binding.Subjects) != 2 {
		t.Errorf("subjects %v, want two", binding.Subjects)
	}

	for name, c := range map[string]struct {
		facts                  accessFacts
		writesRole, writesBind bool
	}{
		"nothing exists":      {accessFacts{}, true, true},
		"all is up to date":   {accessFacts{role, binding}, false, false},
		"the rules differ":    {accessFacts{&rbacv1.Role{ObjectMeta: owned}, binding}, true, false},
		"the subjects differ": {accessFacts{role, &rbacv1.RoleBinding{ObjectMeta: owned}}, false, true},
		"they have no owner":  {accessFacts{&rbacv1.Role{Rules: role.Rules}, &rbacv1.RoleBinding{Subjects: binding.Subjects}}, true, true},
	} {
		if a := decideAccess(condition, c.facts); (a.role != nil) != c.writesRole || (a.binding != nil) != c.writesBind {
			t.Errorf("%s: writes the Role %t and the RoleBinding %t, want %t and %t", name, a.role != nil, a.binding != nil, c.writesRole, c.writesBind)
		}
	}
}
