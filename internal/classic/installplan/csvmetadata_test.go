package installplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func TestListComponentLabels(t *testing.T) {
	plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plan"}}
	plan.Status.Plan = []*v1alpha1.Step{
		nil,
		{Resolving: "tea.v1", Resource: v1alpha1.StepResource{Kind: "Subscription", Manifest: `{"spec":{"name":"tea"}}`}},
		{Resolving: "bad.v1", Resource: v1alpha1.StepResource{Kind: "Subscription", Manifest: `{`}},
		{Resolving: "cup.v2", Resource: v1alpha1.StepResource{Kind: "ClusterServiceVersion", Manifest: `{"spec":{"name":"other"}}`}},
	}
	subs := []v1alpha1.Subscription{
		{Spec: v1alpha1.SubscriptionSpec{Package: "cup"}, Status: v1alpha1.SubscriptionStatus{CurrentCSV: "cup.v2", InstalledCSV: "cup.v1"}},
		{Spec: v1alpha1.SubscriptionSpec{Package: "new"}},
	}
	want := map[string]map[string]string{"cup.v2": {"operators.coreos.com/cup.ns": ""}, "tea.v1": {"operators.coreos.com/tea.ns": ""}}
	if diff := cmp.Diff(want, listComponentLabels(plan, subs)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestCompleteCSVMetadata(t *testing.T) {
	group := operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "group"}, Status: operatorsv1.OperatorGroupStatus{Namespaces: []string{"b", "a"}},
	}
	pending := group
	pending.Status = operatorsv1.OperatorGroupStatus{}
	annotations := map[string]string{"own": "x", "olm.operatorGroup": "group", "olm.operatorNamespace": "ns", "olm.targetNamespaces": "a,b"}
	for name, c := range map[string]struct {
		groups []operatorsv1.OperatorGroup
		want   map[string]string
	}{
		"one group":                 {[]operatorsv1.OperatorGroup{group}, annotations},
		"a group without targets":   {[]operatorsv1.OperatorGroup{pending}, map[string]string{"own": "x"}},
		"several groups":            {[]operatorsv1.OperatorGroup{group, group}, map[string]string{"own": "x"}},
		"no group in the namespace": {nil, map[string]string{"own": "x"}},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "cup.v1", "annotations": map[string]any{"own": "x"}},
			"spec": map[string]any{"customresourcedefinitions": map[string]any{"owned": []any{
				map[string]any{"name": "cups.example.com", "version": "v1", "kind": "Cup"},
			}}},
		}}
		completeCSVMetadata(object, c.groups)
		if diff := cmp.Diff(c.want, object.GetAnnotations()); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", name, diff)
		}
		if labels := object.GetLabels(); len(labels) != 1 {
			t.Errorf("%s: got labels %v, want that of the API", name, labels)
		}
		if finalizers := object.GetFinalizers(); len(finalizers) != 1 {
			t.Errorf("%s: got finalizers %v, want one", name, finalizers)
		}
	}
}
