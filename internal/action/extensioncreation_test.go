package action_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// newAccount returns a service account and its role.
func newAccount(namespace string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "kettle-installer"}
	return []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta},
	}
}

// The service account is created before the extension. If one of its objects is rejected, all created objects are deleted.
func TestInstallWithAccount(t *testing.T) {
	f := env.NewFixture(t, clientgoscheme.AddToScheme, olmv1.AddToScheme)
	namespace := f.NewNamespace("kettle-")
	install := func() (*olmv1.ClusterExtension, error) {
		a := &action.ExtensionInstall{Client: f.Client, Package: "kettle", Name: namespace, Namespace: namespace, ServiceAccount: "kettle-installer", Account: newAccount(namespace)}
		return a.Run(t.Context())
	}
	exists := func(object client.Object) bool {
		t.Helper()
		err := f.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}

	foreign := newAccount(namespace)[1]
	f.CreateAll(foreign)
	if _, err := install(); err == nil || !strings.Contains(err.Error(), `role "kettle-installer": it exists already`) {
		t.Errorf("got %v, want that the role exists", err)
	}
	if exists(newAccount(namespace)[0]) || !exists(foreign) {
		t.Error("the refused installation did not delete its service account, or deleted the role of another user")
	}

	f.Must(f.Delete(t.Context(), foreign))
	extension, err := install()
	f.Must(err)
	if extension.Spec.ServiceAccount == nil || extension.Spec.ServiceAccount.Name != "kettle-installer" {
		t.Errorf("got the service account %+v", extension.Spec.ServiceAccount)
	}
	for _, object := range newAccount(namespace) {
		if !exists(object) {
			t.Errorf("%T is missing", object)
		}
	}

	f.Must(f.Delete(t.Context(), newAccount(namespace)[0]))
	if _, err := install(); err == nil || !strings.Contains(err.Error(), "it exists already") || exists(newAccount(namespace)[0]) {
		t.Errorf("got %v, want that the extension exists and that no service account is created", err)
	}
}
