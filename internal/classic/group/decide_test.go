package group

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
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
