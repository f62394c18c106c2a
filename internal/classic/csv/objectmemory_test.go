package csv

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The version that was read and older ones are known. The schemas of a CRD are not kept.
func TestObjectMemory(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "cups", UID: "1", ResourceVersion: "7"}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{}}}
	m := &objectMemory[*apiextensionsv1.CustomResourceDefinition]{}
	m.add(trimCRD(crd))
	for _, c := range []struct {
		what    string
		uid     types.UID
		version string
		known   bool
	}{{"the same", "1", "7", true}, {"an older one", "1", "6", true}, {"a newer one", "1", "8", false}, {"another of the name", "2", "7", false}} {
		found, ok := m.lookUp(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "cups", UID: c.uid, ResourceVersion: c.version}})
		if ok != c.known {
			t.Errorf("%s: got known %t, want %t", c.what, ok, c.known)
		}
		if ok && (len(found.Spec.Versions) != 1 || !found.Spec.Versions[0].Served || found.Spec.Versions[0].Schema != nil) {
			t.Errorf("got versions %+v, want v1 without its schema", found.Spec.Versions)
		}
	}

	m.forget(types.NamespacedName{Name: "cups"})
	if _, ok := m.lookUp(&metav1.PartialObjectMetadata{ObjectMeta: crd.ObjectMeta}); ok {
		t.Error("got the CRD after it was forgotten, want nil")
	}
}

// The status of an object is found in the version that was read last, and in no other.
func TestFindStatus(t *testing.T) {
	objects := &ReadObjects{}
	objects.crds.add(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "cups", ResourceVersion: "7"}})
	objects.deployments.add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "kettle", ResourceVersion: "8"}})
	for _, c := range []struct {
		what    string
		kind    schema.GroupVersionKind
		name    types.NamespacedName
		version string
		want    bool
	}{
		{"a CRD", crdKind, types.NamespacedName{Name: "cups"}, "7", true},
		{"an older CRD", crdKind, types.NamespacedName{Name: "cups"}, "6", false},
		{"a newer CRD", crdKind, types.NamespacedName{Name: "cups"}, "8", false},
		{"a Deployment", deploymentKind, types.NamespacedName{Namespace: "ns", Name: "kettle"}, "8", true},
		{"a Deployment that was not read", deploymentKind, types.NamespacedName{Namespace: "other", Name: "kettle"}, "8", false},
		{"another kind", proxyKind, types.NamespacedName{Name: "cups"}, "7", false},
	} {
		if status, ok := objects.FindStatus(c.kind, c.name, c.version); ok != c.want || (status != nil) != c.want {
			t.Errorf("%s: got %v, %t, want %t", c.what, status, ok, c.want)
		}
	}
}
