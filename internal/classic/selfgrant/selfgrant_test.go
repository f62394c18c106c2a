package selfgrant_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// program has the role that is shipped with catalog-operator.
type program struct {
	*selfgrant.Granter
	config *rest.Config
	client.Client
}

func newProgram(t *testing.T) *program {
	t.Helper()
	config := env.ConfigWithRoles(t, "config/classic/catalog-operator/role.yaml")
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}

	granter, err := selfgrant.New(config, connection, "catalog-operator")
	if err != nil {
		t.Fatal(err)
	}

	own, err := client.New(config, client.Options{Scheme: env.Scheme(t, corev1.AddToScheme, authenticationv1.AddToScheme), HTTPClient: connection})
	if err != nil {
		t.Fatal(err)
	}

	return &program{granter, config, own}
}

// impersonate sends a SelfSubjectReview as a service account, which every user is permitted to do.
func (p *program) impersonate(t *testing.T, account client.ObjectKey) error {
	t.Helper()
	config := rest.CopyConfig(p.config)
	config.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	c, err := client.New(config, client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}

	return c.Create(t.Context(), &authenticationv1.SelfSubjectReview{})
}

// A program can impersonate the accounts for which it granted itself the right, and no other.
func TestImpersonate(t *testing.T) {
	admin := env.Client(t, corev1.AddToScheme, rbacv1.AddToScheme)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "selfgrant-"}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}

	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace.Name, Name: name} }
	long := strings.Repeat("a", 250)
	for _, name := range []string{"installer", "other", long} {
		if err := admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}

	p := newProgram(t)
	if err := p.impersonate(t, key("installer")); !apierrors.IsForbidden(err) {
		t.Fatalf("before the grant: got %v, want Forbidden", err)
	}

	for _, name := range []string{"installer", "installer", long} {
		if err := p.Impersonate(t.Context(), key(name)); err != nil {
			t.Fatal(err)
		}
		if err := p.impersonate(t, key(name)); err != nil {
			t.Errorf("impersonating %s: %v", name, err)
		}
	}

	if err := p.impersonate(t, key("other")); !apierrors.IsForbidden(err) {
		t.Errorf("impersonating another account: got %v, want Forbidden", err)
	}
	if err := p.Impersonate(t.Context(), key("missing")); !apierrors.IsNotFound(err) {
		t.Errorf("an account that does not exist: got %v, want NotFound", err)
	}

	role := &rbacv1.Role{}
	if err := admin.Get(t.Context(), key("catalog-operator-acts-as-installer"), role); err != nil {
		t.Fatal(err)
	}
	if owners := role.OwnerReferences; len(owners) != 1 || owners[0].Kind != "ServiceAccount" || owners[0].Name != "installer" {
		t.Errorf("the Role has the owners %+v, want the ServiceAccount", owners)
	}

	// Changes of the Role by others are reverted.
	role.Rules = nil
	if err := admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, "the right ends with the rules of its Role", func() bool { return p.impersonate(t, key("installer")) != nil }, nil)
	if err := p.Impersonate(t.Context(), key("installer")); err != nil {
		t.Fatal(err)
	}
	if err := p.impersonate(t, key("installer")); err != nil {
		t.Errorf("after the Role was restored: %v", err)
	}
}

// A program can list the objects of a CRD for which it granted itself the right, and no others.
func TestListAll(t *testing.T) {
	admin := env.Client(t, corev1.AddToScheme, apiextensionsv1.AddToScheme, rbacv1.AddToScheme)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	// Any kind of the project can be used, because the program may not list it.
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "clusterextensions.olm.operatorframework.io"}, crd); err != nil {
		t.Fatal(err)
	}

	p := newProgram(t)
	list := func() error {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind})
		return p.List(t.Context(), objects)
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("before the grant: got %v, want Forbidden", err)
	}

	owner := metav1.OwnerReference{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition", Name: crd.Name, UID: crd.UID}
	resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	if err := p.ListAll(t.Context(), resource, owner); err != nil {
		t.Fatal(err)
	}
	if err := list(); err != nil {
		t.Errorf("after the grant: %v", err)
	}
	if err := p.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: got %v, want Forbidden", err)
	}

	role := &rbacv1.ClusterRole{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "catalog-operator-lists-clusterextensions.olm.operatorframework.io"}, role); err != nil {
		t.Fatal(err)
	}
	if owners := role.OwnerReferences; len(owners) != 1 || owners[0].UID != crd.UID {
		t.Errorf("the ClusterRole has the owners %+v, want the definition", owners)
	}
}
