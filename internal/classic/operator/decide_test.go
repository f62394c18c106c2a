package operator

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const componentKey = "operators.coreos.com/etcd.ns"

// newSubscription returns a Subscription for package etcd with an installed ClusterServiceVersion.
func newSubscription(edit ...func(*v1alpha1.Subscription)) *v1alpha1.Subscription {
	sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub"}}
	sub.Spec.Package = "etcd"
	sub.Status.InstalledCSV = "etcd.v1"
	sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: "ns", Name: "new"}
	for _, e := range edit {
		e(sub)
	}
	return sub
}

func TestDecideAdoption(t *testing.T) {
	labelled := map[string]string{componentKey: ""}
	now := metav1.Now()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd.v1", UID: "1", Labels: labelled}}
	byReference := []metav1.OwnerReference{{Kind: v1alpha1.ClusterServiceVersionKind, Name: "etcd.v1", UID: "1"}}
	byLabels := csvinfo.OwnerLabels("ns", "etcd.v1")
	adopted := func(s *v1alpha1.Subscription) { s.Labels = labelled }
	for name, test := range map[string]struct {
		facts             adoptionFacts
		adopted, disowned []string
	}{
		"no Subscription":          {},
		"nothing is installed":     {facts: adoptionFacts{subscription: newSubscription()}, adopted: []string{"Subscription sub"}},
		"all objects are labelled": {facts: adoptionFacts{subscription: newSubscription(adopted), csv: csv}},
		"a name that is no label": {facts: adoptionFacts{subscription: newSubscription(func(s *v1alpha1.Subscription) {
			s.Spec.Package = "a/b"
		})}},
		"InstallPlans": {
			facts: adoptionFacts{subscription: newSubscription(adopted), plans: []adoptee{
				{installPlanKind, &metav1.ObjectMeta{Name: "old", Labels: labelled}}, {installPlanKind, &metav1.ObjectMeta{Name: "new"}},
			}},
			adopted: []string{"InstallPlan new"}, disowned: []string{"InstallPlan old"},
		},
		"InstallPlans of a Subscription without one": {
			facts: adoptionFacts{
				subscription: newSubscription(adopted, func(s *v1alpha1.Subscription) { s.Status.InstallPlanRef = nil }),
				plans:        []adoptee{{installPlanKind, &metav1.ObjectMeta{Name: "old", Labels: labelled}}},
			},
		},
		"objects of the ClusterServiceVersion": {
			facts: adoptionFacts{subscription: newSubscription(adopted), csv: csv, candidates: []adoptee{
				{deploymentKind, &metav1.ObjectMeta{Name: "by-labels", Labels: byLabels}},
				{deploymentKind, &metav1.ObjectMeta{Name: "by-reference", OwnerReferences: byReference}},
				{deploymentKind, &metav1.ObjectMeta{Name: "labelled", Labels: labelled, OwnerReferences: byReference}},
				{deploymentKind, &metav1.ObjectMeta{Name: "ends", DeletionTimestamp: &now, OwnerReferences: byReference}},
				{deploymentKind, &metav1.ObjectMeta{Name: "other", Labels: csvinfo.OwnerLabels("ns", "etcd.v2")}},
				{deploymentKind, &metav1.ObjectMeta{Name: "earlier", OwnerReferences: []metav1.OwnerReference{{Kind: v1alpha1.ClusterServiceVersionKind, Name: "etcd.v1", UID: "0"}}}},
				{crdKind, &metav1.ObjectMeta{Name: "etcds"}},
			}},
			adopted: []string{"Deployment by-labels", "Deployment by-reference", "CustomResourceDefinition etcds"},
		},
		"ClusterServiceVersion": {
			facts: adoptionFacts{
				subscription: newSubscription(adopted),
				csv:          &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd.v1"}},
			},
			adopted: []string{"ClusterServiceVersion etcd.v1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			describe := func(objects []adoptee) (described []string) {
				for _, o := range objects {
					described = append(described, o.kind.Kind+" "+o.metadata.Name)
				}
				return described
			}
			got := decideAdoption(test.facts)
			if diff := cmp.Diff(test.adopted, describe(got.adopted)); diff != "" {
				t.Errorf("adopted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.disowned, describe(got.disowned)); diff != "" {
				t.Errorf("disowned (-want +got):\n%s", diff)
			}
			if len(got.adopted) > 0 && got.key != componentKey {
				t.Errorf("got key %q, want %q", got.key, componentKey)
			}
		})
	}
}

func TestDecideOperator(t *testing.T) {
	components := []component{{componentID: componentID{deploymentKind, types.NamespacedName{Namespace: "ns", Name: "etcd"}}}}
	exists := &operatorsv1.Operator{}
	for name, test := range map[string]struct {
		facts          operatorFacts
		create, report bool
	}{
		"nothing":                        {},
		"a Subscription":                 {facts: operatorFacts{isSubscribed: true}, create: true, report: true},
		"components without an Operator": {facts: operatorFacts{components: components}, create: true, report: true},
		"it exists":                      {facts: operatorFacts{operator: exists, isSubscribed: true, components: components}, report: true},
		"a user created it":              {facts: operatorFacts{operator: exists}, report: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := decideOperator(test.facts)
			if got.create != test.create || got.report != test.report {
				t.Errorf("got create %t, report %t, want %t, %t", got.create, got.report, test.create, test.report)
			}
		})
	}
}

func TestNewStatus(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 8, 24, 23, 15, 55, 0, time.UTC))
	named := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	got := newStatus("etcd.ns", []component{
		{componentID: componentID{deploymentKind, named("b")}},
		{componentID: componentID{deploymentKind, named("a")}, status: map[string]any{"conditions": []any{
			map[string]any{"type": "Available", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-08-24T23:15:55Z", "lastUpdateTime": "soon"},
			map[string]any{"status": "True"}, "no condition",
		}}},
		{componentID: componentID{csvKind, named("etcd.v1")}, status: map[string]any{
			"phase": "Succeeded", "reason": "InstallSucceeded", "message": "done", "lastUpdateTime": "2026-08-24T23:15:55Z", "lastTransitionTime": "2026-08-24T23:15:55Z",
			"conditions": []any{map[string]any{"phase": "Pending"}},
		}},
		{componentID: componentID{csvKind, named("etcd.v2")}},
		{componentID: componentID{crdKind, types.NamespacedName{Name: "etcds"}}, status: map[string]any{"conditions": "none"}},
	})

	ref := func(version, kind, namespace, name string, conditions ...operatorsv1.ComponentCondition) operatorsv1.ComponentReference {
		return operatorsv1.ComponentReference{
			ObjectReference: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: namespace, Name: name}, Conditions: conditions,
		}
	}
	want := operatorsv1.OperatorStatus{Components: &operatorsv1.Components{
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: componentKey, Operator: "Exists"}}},
		Refs: []operatorsv1.ComponentReference{
			ref("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", "etcd.v1", operatorsv1.ComponentCondition{
				Type: "Succeeded", Status: "True", Reason: "InstallSucceeded", Message: "done", LastUpdateTime: &at, LastTransitionTime: &at,
			}),
			ref("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", "etcd.v2"),
			ref("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "etcds"),
			ref("apps/v1", "Deployment", "ns", "a", operatorsv1.ComponentCondition{Type: "Available", Status: "True", Reason: "R", Message: "m", LastTransitionTime: &at}),
			ref("apps/v1", "Deployment", "ns", "b"),
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestKeepConditions checks that only the conditions of large statuses are kept.
func TestKeepConditions(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	got := keepConditions(map[string]any{"phase": "Succeeded", "requirementStatus": []any{large}})
	if diff := cmp.Diff(map[string]any{"phase": "Succeeded"}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// TestLabelledStore checks that only labelled objects are kept, and that the Operators of changed
// objects are enqueued.
func TestLabelledStore(t *testing.T) {
	var enqueued []string
	s := &labelledStore{objects: map[types.NamespacedName]metav1.ObjectMeta{}, synced: make(chan struct{}), enqueue: func(labels map[string]string) {
		enqueued = append(enqueued, csvinfo.OperatorsOfLabels(labels)...)
	}}
	object := func(name string, operators ...string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"a": "b"}}}
		for _, operator := range operators {
			o.Labels[csvinfo.LabelComponent+operator] = ""
		}
		return o
	}
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	for _, step := range []struct {
		change             func() error
		enqueued, retained []string
	}{
		{func() error { return s.Replace([]any{object("a", "x.ns"), object("b"), object("c", "y.ns")}, "1") }, []string{"x.ns", "y.ns"}, []string{"a", "c"}},
		{func() error { return s.Add(object("d")) }, nil, []string{"a", "c"}},
		{func() error { return s.Update(object("d", "x.ns", "y.ns")) }, []string{"x.ns", "y.ns"}, []string{"a", "c", "d"}},
		{func() error { return s.Update(object("a", "z.ns")) }, []string{"x.ns", "z.ns"}, []string{"a", "c", "d"}},
		{func() error { return s.Update(object("a")) }, []string{"z.ns"}, []string{"c", "d"}},
		{func() error { return s.Delete(object("c", "y.ns")) }, []string{"y.ns"}, []string{"d"}},
		{func() error { return s.Delete(object("absent")) }, nil, []string{"d"}},
		{func() error { return s.Replace([]any{object("e", "x.ns")}, "2") }, []string{"x.ns", "x.ns", "y.ns"}, []string{"e"}},
	} {
		enqueued = nil
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.enqueued, enqueued); diff != "" {
			t.Errorf("enqueued (-want +got):\n%s", diff)
		}
		var retained []string
		for name := range s.objects {
			retained = append(retained, name.Name)
		}
		slices.Sort(retained)
		if diff := cmp.Diff(step.retained, retained); diff != "" {
			t.Errorf("retained (-want +got):\n%s", diff)
		}
	}

	select {
	case <-s.synced:
	default:
		t.Error("the store is not synced after Replace")
	}
	if diff := cmp.Diff(metav1.ObjectMeta{Namespace: "ns", Name: "e", Labels: map[string]string{"operators.coreos.com/x.ns": ""}}, s.objects[key("e")]); diff != "" {
		t.Errorf("kept metadata (-want +got):\n%s", diff)
	}
}

// pagedResource is a resource whose lists have several pages.
type pagedResource struct {
	metadata.Getter
	pages []metav1.PartialObjectMetadataList
}

// List returns the page whose number is the continue token.
func (r pagedResource) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	n, _ := strconv.Atoi(options.Continue)
	if options.Limit != pageSize || options.LabelSelector != "!olm.copiedFrom" {
		return nil, fmt.Errorf("unexpected options %+v", options)
	}
	page := r.pages[n].DeepCopy()
	page.ResourceVersion = "7"
	if n+1 < len(r.pages) {
		page.Continue = strconv.Itoa(n + 1)
	}
	return page, nil
}

// TestListLabelled checks that all pages are read, and that labelled objects alone are kept.
func TestListLabelled(t *testing.T) {
	object := func(name string, labels map[string]string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	labels := map[string]string{componentKey: "", "app": "x"}
	resource := pagedResource{pages: []metav1.PartialObjectMetadataList{
		{Items: []metav1.PartialObjectMetadata{object("a", labels), object("b", nil)}}, {}, {Items: []metav1.PartialObjectMetadata{object("c", map[string]string{"app": "x"}), object("d", labels)}},
	}}
	got, err := listLabelled(t.Context(), resource, "!olm.copiedFrom")
	if err != nil {
		t.Fatal(err)
	}

	kept := map[string]string{componentKey: ""}
	want := &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []metav1.PartialObjectMetadata{object("a", kept), object("d", kept)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
