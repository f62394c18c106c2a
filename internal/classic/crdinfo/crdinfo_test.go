package crdinfo_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// newCRD returns a CRD with a schema and with an annotation of kubectl.
func newCRD(name string) *apiextensionsv1.CustomResourceDefinition {
	plural, group, _ := strings.Cut(name, ".")
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d", corev1.LastAppliedConfigAnnotation: "{}"},
	}}
	crd.Spec.Group, crd.Spec.Scope = group, apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "Kettle"}
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1", Served: true, Storage: true, Schema: schema}, {Name: "v1alpha1", Schema: schema},
	}
	return crd
}

// The cache follows the CRDs of a cluster, without what is not needed of them.
func TestCache(t *testing.T) {
	const name = "kettles.crdinfo.example.com"
	f := env.NewFixture(t, apiextensionsv1.AddToScheme)
	f.CreateForTest(newCRD(name))

	var definitions client.Reader
	f.StartManager(env.Manager{Roles: "config/classic/olm-operator/role.yaml", Setup: func(mgr ctrl.Manager) (err error) {
		definitions, err = crdinfo.NewCache(mgr)
		return err
	}})

	found := &crdinfo.Definition{}
	f.Eventually("the cache has the CRD with its conditions", func() error {
		return definitions.Get(t.Context(), client.ObjectKey{Name: name}, found)
	})
	f.EventuallyTrue("the CRD is served", func() bool {
		return definitions.Get(t.Context(), client.ObjectKey{Name: name}, found) == nil && crdinfo.IsServed(&found.Status)
	}, nil)

	live := &apiextensionsv1.CustomResourceDefinition{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, live))
	want := live.DeepCopy()
	want.TypeMeta, want.ManagedFields, want.Annotations = metav1.TypeMeta{}, nil, map[string]string{"c": "d"}
	want.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v1alpha1"}}}
	f.Eventually("the cache has the last state", func() error { return definitions.Get(t.Context(), client.ObjectKey{Name: name}, found) })
	if diff := cmp.Diff(want, found.CRD()); diff != "" {
		t.Errorf("CRD of the cache (-want +got):\n%s", diff)
	}

	var list crdinfo.DefinitionList
	f.Must(definitions.List(t.Context(), &list, client.MatchingLabels{"a": "b"}))
	if len(list.Items) != 1 || list.Items[0].Name != name {
		t.Errorf("got %d CRDs with the label, want %s", len(list.Items), name)
	}

	f.Must(f.Delete(t.Context(), live))
	f.EventuallyTrue("the cache does not have the deleted CRD", func() bool {
		return client.IgnoreNotFound(definitions.Get(t.Context(), client.ObjectKey{Name: name}, found)) == nil &&
			definitions.Get(t.Context(), client.ObjectKey{Name: name}, found) != nil
	}, nil)
}

func TestIsServed(t *testing.T) {
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}
	rejected := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse}
	for name, test := range map[string]struct {
		conditions []apiextensionsv1.CustomResourceDefinitionCondition
		want       bool
	}{
		"new":            {nil, false},
		"established":    {[]apiextensionsv1.CustomResourceDefinitionCondition{established, accepted}, true},
		"names accepted": {[]apiextensionsv1.CustomResourceDefinitionCondition{accepted}, false},
		"names taken":    {[]apiextensionsv1.CustomResourceDefinitionCondition{established, rejected}, false},
	} {
		if got := crdinfo.IsServed(&apiextensionsv1.CustomResourceDefinitionStatus{Conditions: test.conditions}); got != test.want {
			t.Errorf("%s: got served %t, want %t", name, got, test.want)
		}
	}
}

// A copy shares nothing with the original.
func TestDeepCopy(t *testing.T) {
	encoded, err := json.Marshal(newCRD("kettles.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	list := &crdinfo.DefinitionList{Items: make([]crdinfo.Definition, 1)}
	if err := json.Unmarshal(encoded, &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	list.Items[0].Status.StoredVersions = []string{"v1"}

	for _, copied := range []*crdinfo.Definition{
		list.Items[0].DeepCopyObject().(*crdinfo.Definition), &list.DeepCopyObject().(*crdinfo.DefinitionList).Items[0],
	} {
		if diff := cmp.Diff(&list.Items[0], copied); diff != "" {
			t.Errorf("copy (-want +got):\n%s", diff)
		}
		copied.Labels["a"], copied.Spec.Versions[0].Served, copied.Status.StoredVersions[0] = "changed", false, "v2"
	}
	if d := list.Items[0]; d.Labels["a"] != "b" || !d.Spec.Versions[0].Served || d.Status.StoredVersions[0] != "v1" {
		t.Errorf("got %+v after the copies were changed, want the original", d)
	}
}
