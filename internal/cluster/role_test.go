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
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// account is the user name of the operator's service account.
const account = "system:serviceaccount:openshift-cluster-version:cluster-version-operator"

// applyConfigFiles creates the objects of files in config.
func (f *fixture) applyConfigFiles(names ...string) {
	f.T.Helper()
	root, err := checkout.Root()
	f.Must(err)

	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(name)))
		f.Must(err)
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				f.T.Fatalf("%s: %v", name, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if err := f.Create(f.T.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
				f.T.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// With only its own role, the operator checks releases and reports, but applies nothing.
// Applying needs another binding.
func TestOwnRole(t *testing.T) {
	f := newFixture(t)
	f.applyConfigFiles("cluster-version-operator/namespaces.yaml", "cluster-version-operator/service_account.yaml", "cluster-version-operator/role.yaml",
		"cluster-version-operator/rbac.yaml", "cluster-version-operator/service.yaml", "cluster-version-operator/deployment.yaml")
	f.user = account
	first := f.newReleaseFiles("1.0.0", nil)
	own := f.pushRelease(first)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	cv := f.waitForVersion("the complaint", func(cv *configv1.ClusterVersion) bool {
		return getCondition(cv, "Failing").Status == metav1.ConditionTrue && getCondition(cv, "ReleaseAccepted").Status == metav1.ConditionTrue
	})
	if c := getCondition(cv, "Failing"); c.Reason != "UpdatePayloadResourceForbidden" && !strings.Contains(c.Message, "forbidden") {
		t.Errorf("Failing is %+v", c)
	}

	f.expectEvents("PayloadLoaded")
	f.applyConfigFiles("cluster-version-operator/cluster_admin.yaml")
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cluster-version-operator"}}
	t.Cleanup(func() {
		if err := f.Delete(context.Background(), binding); err != nil {
			t.Error(err)
		}
	})
	// New work starts at once, without the retry interval after a failure.
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) {
		spec.Overrides = []configv1.ComponentOverride{{Kind: "Secret", Namespace: "default", Name: "mine", Unmanaged: true}}
	})
	f.waitForVersion("the installation", isComplete("1.0.0"))
}
