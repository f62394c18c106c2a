package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// account is that of the operator, as the manifests make it.
const account = "system:serviceaccount:openshift-cluster-version:cluster-version-operator"

// ship creates the objects of files of config.
func (w *world) ship(names ...string) {
	w.t.Helper()
	root, err := env.Root()
	if err != nil {
		w.t.Fatal(err)
	}

	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(name)))
		if err != nil {
			w.t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				w.t.Fatalf("%s: %v", name, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if err := w.client.Create(w.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
				w.t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// With its own role alone, the operator judges releases and reports, and applies none. Every
// right is another binding.
func TestOwnRole(t *testing.T) {
	w := newWorld(t)
	w.ship("cluster-version-operator/namespaces.yaml", "cluster-version-operator/service_account.yaml", "cluster-version-operator/role.yaml",
		"cluster-version-operator/rbac.yaml", "cluster-version-operator/service.yaml", "cluster-version-operator/deployment.yaml")
	w.as = account
	first := w.content("1.0.0", nil)
	own := w.push(first)
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	cv := w.await("the complaint", func(cv *configv1.ClusterVersion) bool {
		return conditionOf(cv, "Failing").Status == metav1.ConditionTrue && conditionOf(cv, "ReleaseAccepted").Status == metav1.ConditionTrue
	})
	if c := conditionOf(cv, "Failing"); c.Reason != "UpdatePayloadResourceForbidden" && !strings.Contains(c.Message, "forbidden") {
		t.Errorf("Failing is %+v", c)
	}

	w.expectEvents("PayloadLoaded")
	w.ship("cluster-version-operator/cluster_admin.yaml")
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cluster-version-operator"}}
	t.Cleanup(func() {
		if err := w.client.Delete(context.Background(), binding); err != nil {
			t.Error(err)
		}
	})
	// Other work is begun at once, without the pause after a failure.
	w.change(func(spec *configv1.ClusterVersionSpec) {
		spec.Overrides = []configv1.ComponentOverride{{Kind: "Secret", Namespace: "default", Name: "mine", Unmanaged: true}}
	})
	w.await("the installation", isAt("1.0.0"))
}
