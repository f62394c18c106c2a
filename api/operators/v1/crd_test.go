package v1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Names, scopes and versions must be those that clients and scripts expect. The first version is the stored one.
func TestDefinitions(t *testing.T) {
	for kind, want := range map[string]struct {
		plural, scope string
		short         []string
		versions      []string
	}{
		"ClusterServiceVersion": {"clusterserviceversions", "Namespaced", []string{"csv", "csvs"}, []string{"v1alpha1"}},
		"CatalogSource":         {"catalogsources", "Namespaced", []string{"catsrc"}, []string{"v1alpha1"}},
		"Subscription":          {"subscriptions", "Namespaced", []string{"sub", "subs"}, []string{"v1alpha1"}},
		"InstallPlan":           {"installplans", "Namespaced", []string{"ip"}, []string{"v1alpha1"}},
		"OperatorGroup":         {"operatorgroups", "Namespaced", []string{"og"}, []string{"v1", "v1alpha2"}},
		"OperatorCondition":     {"operatorconditions", "Namespaced", []string{"condition"}, []string{"v2", "v1"}},
		"OLMConfig":             {"olmconfigs", "Cluster", nil, []string{"v1"}},
		"Operator":              {"operators", "Cluster", nil, []string{"v1"}},
	} {
		t.Run(kind, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "classic", "crd", "operators.coreos.com_"+want.plural+".yaml"))
			if err != nil {
				t.Fatal(err)
			}

			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(data, crd); err != nil {
				t.Fatal(err)
			}

			names := apiextensionsv1.CustomResourceDefinitionNames{
				Plural: want.plural, Kind: kind, ListKind: kind + "List", Singular: want.plural[:len(want.plural)-1], ShortNames: want.short, Categories: []string{"olm"},
			}
			if diff := cmp.Diff(names, crd.Spec.Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if string(crd.Spec.Scope) != want.scope || crd.Spec.Conversion != nil || len(crd.Spec.Versions) != len(want.versions) {
				t.Errorf("got scope %s, conversion %v, %d versions", crd.Spec.Scope, crd.Spec.Conversion, len(crd.Spec.Versions))
			}

			for _, version := range crd.Spec.Versions {
				isStored := version.Name == want.versions[0]
				if !version.Served || version.Storage != isStored || version.Subresources == nil || version.Subresources.Status == nil || version.Deprecated {
					t.Errorf("version %s: got served %t, stored %t, subresources %v", version.Name, version.Served, version.Storage, version.Subresources)
				}
			}
		})
	}
}
