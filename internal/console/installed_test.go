package console_test

import (
	"net/http"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
)

// A namespace shows the operators of other namespaces that manage it, also to a user who may not read those.
func TestInstalledManagesNamespace(t *testing.T) {
	f := newFixture(t, nil)
	other, unrelated := f.NewNamespace("global-"), f.NewNamespace("unrelated-")
	create := func(namespace, name string, labels, annotations map[string]string) {
		t.Helper()
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: annotations}}
		csv.Spec.DisplayName, csv.Spec.InstallStrategy.StrategyName = "Kettle", "deployment"
		f.CreateAll(csv)
	}
	managing := func(namespaces string) map[string]string {
		return map[string]string{"olm.targetNamespaces": namespaces}
	}
	create(other, "everywhere", nil, managing(""))
	create(other, "here", nil, managing(f.namespace+","+unrelated))
	create(other, "elsewhere", nil, managing(unrelated))
	create(f.namespace, "own", nil, managing(f.namespace))
	// OLM does not copy the annotation.
	create(f.namespace, "everywhere", map[string]string{"olm.copiedFrom": other}, nil)

	read := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}
	for _, test := range []struct {
		name, token string
		want        []string
	}{
		{"a user of all namespaces", f.newUser("admin", "", read), []string{"everywhere in " + other, "here in " + other, "own in " + f.namespace}},
		{"a user of the namespace", f.newUser("tenant", f.namespace, read), []string{"everywhere in " + other, "own in " + f.namespace}},
	} {
		var got inventory.Inventory
		f.signIn(test.token).do(http.MethodGet, "/api/v1/installed?namespace="+f.namespace, nil, &got)
		var names []string
		for i := range got.Items {
			names = append(names, got.Items[i].Name+" in "+got.Items[i].InstallNamespace)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, names, test.want)
		}
	}
}
