package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Limited returns the connection to the API server of this test binary of a user who has the rights of
// the generated roles of a file and no others. The path is relative to the root of the repository, such as
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
	c := Client(t, rbacv1.AddToScheme, corev1.AddToScheme)
	for document := range strings.SplitSeq(strings.TrimPrefix(string(data), "---\n"), "\n---\n") {
		user, objects, err := granted([]byte(document))
		if err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}
		for _, object := range objects {
			// It may be there from another test.
			if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
				t.Fatalf("making %s: %v", object.GetName(), err)
			}
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	return config
}

// granted returns the objects that give the rules of a ClusterRole or Role to a user, and the user's name.
func granted(document []byte) (user string, objects []client.Object, err error) {
	role := &rbacv1.Role{}
	if err := yaml.UnmarshalStrict(document, role); err != nil {
		return "", nil, err
	}
	user = "env-" + role.Name
	meta := metav1.ObjectMeta{Namespace: role.Namespace, Name: user}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if role.Kind == "ClusterRole" {
		return user, []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: role.Rules},
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects},
		}, nil
	}
	return user, []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: role.Namespace}},
		&rbacv1.Role{ObjectMeta: meta, Rules: role.Rules},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects},
	}, nil
}
