package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Limited gives the connection to the API server of this test binary of somebody who has the rights of a
// generated ClusterRole and no others: path is its file, from the root of the repository, such as
// config/classic/olm-operator/role.yaml. A program is tested with the rights that it is shipped with.
func Limited(t testing.TB, path string) *rest.Config {
	t.Helper()
	config := Start(t)
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(data), "---\n")), role); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	role.Name = "env-" + role.Name
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role.Name}},
	}
	c := Client(t, rbacv1.AddToScheme)
	for _, object := range []client.Object{role, binding} {
		// It may be there from another test.
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
			t.Fatalf("making %s: %v", object.GetName(), err)
		}
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: role.Name}
	return config
}
