package csv

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A version that was read is known, and so are older ones. The schemas of a CRD are not kept.
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
