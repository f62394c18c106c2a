package env

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// ConfigWithRoles returns a connection to the API server of this test binary with the rights of the
// generated roles in a file, and no others. path is relative to the root of the repository, such
// as config/classic/olm-operator/role.yaml. Roles are granted in their namespaces. Use it to test
// a program with the rights that it is shipped with.
func ConfigWithRoles(t testing.TB, path string) *rest.Config {
	t.Helper()
	roles, err := readRoles(path)
	if err != nil {
		t.Fatal(err)
	}

	c := Client(t, corev1.AddToScheme, rbacv1.AddToScheme)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault}}
	for _, role := range roles {
		account.Name = "env-" + role.Name
		objects, err := newRoleObjects(role, account)
		if err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}

		for _, object := range objects {
			// Another test may have created it.
			if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
				t.Fatalf("making %s: %v", object.GetName(), err)
			}
		}
	}

	if err := client.IgnoreAlreadyExists(c.Create(t.Context(), account)); err != nil {
		t.Fatalf("making ServiceAccount %s: %v", account.Name, err)
	}

	return ConnectAs(t, account.Namespace, account.Name)
}

// ConnectAs returns a connection to the API server of this test binary with the token of a service account.
func ConnectAs(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	c := Client(t, corev1.AddToScheme, authenticationv1.AddToScheme)
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatalf("requesting a token of service account %s/%s: %v", namespace, name, err)
	}

	connection := rest.AnonymousClientConfig(Start(t))
	connection.BearerToken = token.Status.Token
	return connection
}

// readRoles reads the ClusterRoles and Roles of a file. path is relative to the root of the repository.
func readRoles(path string) ([]*rbacv1.ClusterRole, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}

	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}

	var roles []*rbacv1.ClusterRole
	for document := range bytes.SplitSeq(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n---\n")) {
		role := &rbacv1.ClusterRole{} // A Role has the same fields.
		if err := yaml.UnmarshalStrict(document, role); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		roles = append(roles, role)
	}

	return roles, nil
}

// newRoleObjects returns a copy of a role, its binding to a service account, and the namespace of
// a Role.
func newRoleObjects(role *rbacv1.ClusterRole, account *corev1.ServiceAccount) ([]client.Object, error) {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: account.Name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
	meta := metav1.ObjectMeta{Namespace: role.Namespace, Name: account.Name}
	switch role.Kind {
	case "ClusterRole":
		return []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: role.Rules},
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects},
		}, nil
	case "Role":
		return []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: role.Namespace}},
			&rbacv1.Role{ObjectMeta: meta, Rules: role.Rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects},
		}, nil
	default:
		return nil, fmt.Errorf("%s is not a role but a %s", role.Name, role.Kind)
	}
}
