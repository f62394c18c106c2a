package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/operands"
	"github.com/mainstay-dev/mainstay/internal/console"
)

// gardenGroup returns the group of orchards. Each fixture has its own, because CRDs are not deleted at once.
func (f *fixture) gardenGroup() string { return f.namespace + ".example.com" }

// orchardsPath returns the path of orchards in the API of the console.
func (f *fixture) orchardsPath() string {
	return "/api/v1/operands/" + f.gardenGroup() + "/v1/orchards"
}

// createOrchards creates the CRD of orchards, and an operator that owns it, in the namespace of the fixture.
func (f *fixture) createOrchards() {
	f.T.Helper()
	f.Must(apiextensionsv1.AddToScheme(f.Scheme()))
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"size"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer", Minimum: new(1.0)}, "pools": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string", MaxLength: new(int64(3))}}},
		}},
	}}
	f.CreateAll(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "orchards." + f.gardenGroup()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: f.gardenGroup(), Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "orchards", Singular: "orchard", Kind: "Orchard", ListKind: "OrchardList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": spec, "status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": text}},
					},
				}},
			}},
		},
	}, &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "garden.v1.0.0", Annotations: map[string]string{
			"alm-examples": `[{"apiVersion":"` + f.gardenGroup() + `/v1","kind":"Orchard","metadata":{"name":"sample"},"spec":{"size":3}},{"kind":"Other"}]`,
			"operators.operatorframework.io/internal-objects": `["sheds.` + f.gardenGroup() + `"]`,
		}},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: "deployment"},
			CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{Owned: []v1alpha1.CRDDescription{
				{Name: "orchards." + f.gardenGroup(), Version: "v1", Kind: "Orchard", APIDescription: v1alpha1.APIDescription{
					DisplayName: "Orchard", SpecDescriptors: []v1alpha1.Descriptor{{Path: "size", XDescriptors: []string{"urn:alm:descriptor:com.tectonic.ui:podCount"}}},
				}},
				{Name: "sheds." + f.gardenGroup(), Version: "v1", Kind: "Shed"},
			}},
		},
	})
	f.Eventually("the API server serves orchards", func() error {
		_, err := (&operands.List{Client: f.Client, Resource: operands.Resource{Group: f.gardenGroup(), Version: "v1", Plural: "orchards"}}).Run(f.T.Context())
		return err
	})
}

func (f *fixture) newOrchard(name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": f.gardenGroup() + "/v1", "kind": "Orchard", "metadata": map[string]any{"namespace": f.namespace, "name": name}, "spec": spec}
}

// A user creates, reads, edits and deletes a custom resource; faults and conflicts are reported in the response.
func TestOperands(t *testing.T) {
	f := newFixture(t, nil)
	f.createOrchards()
	orchards := f.orchardsPath()
	all := []string{"*"}
	b := f.signIn(f.newUser("gardener", f.namespace,
		rbacv1.PolicyRule{APIGroups: []string{f.gardenGroup()}, Resources: all, Verbs: all},
		rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: all, Verbs: []string{"get", "list"}}))

	var apis console.OperandAPIs
	b.do(http.MethodGet, "/api/v1/namespaces/"+f.namespace+"/clusterserviceversions/garden.v1.0.0/apis", nil, &apis)
	if len(apis.Items) != 1 || apis.Items[0].Kind != "Orchard" || !apis.Items[0].Namespaced || apis.Items[0].Missing {
		t.Errorf("got %+v, want the kind that is not internal", apis.Items)
	}

	var definition operands.OperandDefinition
	f.Eventually("the schema is published", func() error {
		b.do(http.MethodGet, orchards+"/definition?namespace="+f.namespace, nil, &definition)
		properties, _ := definition.Schema["properties"].(map[string]any)
		if _, ok := properties["spec"]; !ok {
			return http.ErrMissingFile
		}
		return nil
	})
	if definition.Kind != "Orchard" || len(definition.Examples) != 1 || len(definition.SpecDescriptors) != 1 || definition.Operator != "garden.v1.0.0" {
		t.Errorf("got %+v, want the example and the descriptor of the operator", definition)
	}

	write := func(object map[string]any, dryRun bool) operands.OperandOutcome {
		t.Helper()
		var outcome operands.OperandOutcome
		b.do(http.MethodPost, orchards, map[string]any{"object": object, "dryRun": dryRun}, &outcome)
		return outcome
	}
	faulty := write(f.newOrchard("a", map[string]any{"size": 0, "pools": []any{map[string]any{"name": "much too long"}}}), true)
	paths := []string{}
	for _, fault := range faulty.Faults {
		paths = append(paths, strings.Join(fault.Path, "/"))
	}
	if slices.Sort(paths); !slices.Equal(paths, []string{"spec/pools/0/name", "spec/size"}) {
		t.Errorf("got faults at %q, want those at the two fields", paths)
	}
	if got := write(f.newOrchard("a", map[string]any{"size": 1, "colour": "red"}), true).Faults; len(got) != 1 || !slices.Equal(got[0].Path, []string{"spec", "colour"}) {
		t.Errorf("got %+v, want a fault at the unknown field", got)
	}

	if got := write(f.newOrchard("a", map[string]any{"size": 1}), true); got.Object == nil {
		t.Errorf("got %+v, want the object of a dry run", got)
	}
	var page operands.OperandPage
	if b.do(http.MethodGet, orchards+"?namespace="+f.namespace, nil, &page); len(page.Items) != 0 {
		t.Errorf("got %+v after dry runs, want nothing", page.Items)
	}

	created := write(f.newOrchard("a", map[string]any{"size": 1}), false).Object
	created["spec"] = map[string]any{"size": 2}
	if got := write(created, false); got.Object == nil || got.Current != nil {
		t.Errorf("got %+v, want the updated object", got)
	}
	if got := write(created, false); got.Object != nil || got.Current["spec"].(map[string]any)["size"] != 2.0 {
		t.Errorf("got %+v, want a conflict with the current object", got)
	}

	remove := func(uid any) int {
		body := map[string]any{"namespace": f.namespace, "name": "a", "uid": uid}
		return b.send(b.newRequest(http.MethodPost, orchards+"/delete", body)).Code
	}
	if got := remove("another"); got != http.StatusConflict {
		t.Errorf("deleting another object: got %d, want 409", got)
	}
	if got := remove(created["metadata"].(map[string]any)["uid"]); got != http.StatusOK {
		t.Errorf("deleting: got %d, want 200", got)
	}
}

// Users without rights are refused by the API server. The schema, which is public, has no content of objects.
func TestOperandsOfOthers(t *testing.T) {
	f := newFixture(t, nil)
	f.createOrchards()
	orchards := f.orchardsPath()
	f.CreateAll(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "seeds"}})
	read := rbacv1.PolicyRule{APIGroups: []string{f.gardenGroup()}, Resources: []string{"orchards"}, Verbs: []string{"get", "list"}}
	reader := f.signIn(f.newUser("reader", f.namespace, read))
	stranger := f.signIn(f.newUser("stranger", ""))
	in := "?namespace=" + f.namespace
	for _, test := range []struct {
		who          *browser
		method, path string
		body         any
		want         int
	}{
		{reader, http.MethodGet, orchards + in, nil, http.StatusOK},
		{reader, http.MethodGet, orchards, nil, http.StatusForbidden},
		{reader, http.MethodGet, orchards + "/object" + in + "&name=none", nil, http.StatusNotFound},
		{reader, http.MethodPost, orchards, map[string]any{"object": f.newOrchard("a", map[string]any{"size": 1})}, http.StatusForbidden},
		{reader, http.MethodPost, orchards, map[string]any{"object": f.newOrchard("a", map[string]any{"size": 1}), "dryRun": true}, http.StatusForbidden},
		{reader, http.MethodPost, orchards + "/delete", map[string]any{"namespace": f.namespace, "name": "a", "uid": "1"}, http.StatusForbidden},
		{reader, http.MethodGet, "/api/v1/names" + in + "&kind=Secret", nil, http.StatusForbidden},
		{reader, http.MethodGet, "/api/v1/operands/none.example.com/v1/nones", nil, http.StatusNotFound},
		{reader, http.MethodGet, "/api/v1/operands/core/v1/secrets" + in, nil, http.StatusUnprocessableEntity},
		{stranger, http.MethodGet, orchards + in, nil, http.StatusForbidden},
		{stranger, http.MethodGet, "/api/v1/namespaces/" + f.namespace + "/clusterserviceversions/garden.v1.0.0/apis", nil, http.StatusForbidden},
	} {
		if got := test.who.send(test.who.newRequest(test.method, test.path, test.body)); got.Code != test.want {
			t.Errorf("%s %s: got %d %s, want %d", test.method, test.path, got.Code, got.Body, test.want)
		}
	}

	var definition operands.OperandDefinition
	stranger.do(http.MethodGet, orchards+"/definition"+in, nil, &definition)
	if definition.Kind != "Orchard" || definition.Operator != "" || len(definition.Examples) != 0 {
		t.Errorf("got %+v, want the kind without the description of the operator, which the user may not read", definition)
	}
}
