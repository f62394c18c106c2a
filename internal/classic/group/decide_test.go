package group

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	newGroup := func(edit ...func(*operatorsv1.OperatorGroup)) *operatorsv1.OperatorGroup {
		g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "group"}}
		g.Spec.TargetNamespaces = []string{"home"}
		g.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{"home"}, LastUpdated: &metav1.Time{Time: now}}
		g.Annotations = map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: "A.v1.example.com"}
		for _, e := range edit {
			e(g)
		}
		return g
	}

	member := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op"}}
	member.Status.Phase = v1alpha1.CSVPhaseSucceeded
	type result struct {
		Targets              []string
		Invalid              string
		Annotated, Roles     int
		ProvidedAPIs         string
		MultipleGroups, Same bool
	}
	for name, c := range map[string]struct {
		group *operatorsv1.OperatorGroup
		facts facts
		want  result
	}{
		"a changed status is written before anything else": {
			newGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = []string{"b"} }), facts{isAlone: true},
			result{Targets: []string{"b"}, ProvidedAPIs: "kept"},
		},
		"invalid targets keep the status": {
			newGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = []string{""} }), facts{isAlone: true},
			result{Targets: []string{"home"}, Invalid: "TargetNamespaces cannot contain NamespaceAll: []", ProvidedAPIs: "kept", Same: true},
		},
		"members, roles and APIs": {newGroup(), facts{isAlone: true}, result{Targets: []string{"home"}, Annotated: 1, Roles: 3, Same: true}},
		"one of several groups":   {newGroup(), facts{}, result{Targets: []string{"home"}, ProvidedAPIs: "kept", MultipleGroups: true}},
		"one of several groups, reported": {
			newGroup(func(g *operatorsv1.OperatorGroup) {
				g.Status.Conditions = []metav1.Condition{{
					Type: operatorsv1.MultipleOperatorGroupCondition, Status: metav1.ConditionTrue, Reason: operatorsv1.MultipleOperatorGroupsReason,
					Message: "Multiple OperatorGroup found in the same namespace", LastTransitionTime: metav1.NewTime(now),
				}}
			}), facts{},
			result{Targets: []string{"home"}, Roles: 3, MultipleGroups: true, Same: true},
		},
		"a static list of APIs is kept": {
			newGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.StaticProvidedAPIs = true }), facts{isAlone: true},
			result{Targets: []string{"home"}, Annotated: 1, Roles: 3, ProvidedAPIs: "kept", Same: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.now, c.facts.members = now, []v1alpha1.ClusterServiceVersion{member}
			d := decide(c.group, &c.facts)
			got := result{
				Targets: d.status.Namespaces, Annotated: len(d.annotations), Roles: len(d.roles), ProvidedAPIs: "kept",
				MultipleGroups: len(d.status.Conditions) > 0, Same: cmp.Equal(c.group.Status, d.status),
			}
			if d.invalid != nil {
				got.Invalid = d.invalid.Error()
			}
			if d.providedAPIs != nil {
				got.ProvidedAPIs = *d.providedAPIs
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An operator gets cluster-wide rights only as a member of a global group, and only while its finalizer deletes them.
func TestDecideGrants(t *testing.T) {
	global := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "group"}}
	global.Status.Namespaces = []string{""}
	local := global.DeepCopy()
	local.Status.Namespaces = []string{"home"}
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	role := rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "role"}, Rules: []rbacv1.PolicyRule{rule}}
	newMember := func(edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op", Finalizers: []string{csvinfo.Finalizer}}}
		csv.Annotations = map[string]string{
			csvinfo.AnnotationOperatorGroup: "group", csvinfo.AnnotationOperatorNamespace: "home", csvinfo.AnnotationTargetNamespaces: "",
		}
		csv.Spec.InstallStrategy.StrategySpec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{Rules: []rbacv1.PolicyRule{rule}}}
		for _, e := range edit {
			e(csv)
		}
		return csv
	}
	for name, c := range map[string]struct {
		csv   *v1alpha1.ClusterServiceVersion
		group *operatorsv1.OperatorGroup
		want  int
	}{
		"a member of a global group": {newMember(), global, 1},
		"a member of a local group": {
			newMember(func(csv *v1alpha1.ClusterServiceVersion) {
				csv.Annotations[csvinfo.AnnotationTargetNamespaces] = "home"
			}), local, 0,
		},
		"without a group":            {newMember(), nil, 0},
		"without its annotations":    {newMember(func(csv *v1alpha1.ClusterServiceVersion) { csv.Annotations = nil }), global, 0},
		"without its finalizer":      {newMember(func(csv *v1alpha1.ClusterServiceVersion) { csv.Finalizers = nil }), global, 0},
		"with a finalizer of others": {newMember(func(csv *v1alpha1.ClusterServiceVersion) { csv.Finalizers = []string{"example.com/x"} }), global, 0},
		"while it is deleted": {
			newMember(func(csv *v1alpha1.ClusterServiceVersion) { csv.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), global, 0,
		},
	} {
		if got := decideGrants(c.csv, &grantFacts{group: c.group, roles: []rbacv1.Role{role}}); len(got.Roles) != c.want {
			t.Errorf("%s: got %d roles, want %d", name, len(got.Roles), c.want)
		}
	}
}
