package cluster

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// With only its own role, the operator checks releases and reports, but applies nothing.
// Applying needs another binding.
func TestOwnRole(t *testing.T) {
	f := newFixture(t)
	f.Must(f.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cluster-version-operator"}}))
	f.waitForAuthorizer(false)
	f.CreateConfig("cluster-version-operator/service.yaml", "cluster-version-operator/deployment.yaml")
	first := f.newReleaseFiles("1.0.0", nil)
	own := f.pushRelease(first)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	cv := f.waitForVersion("the report of the missing rights", func(cv *configv1.ClusterVersion) bool {
		return getCondition(cv, "Failing").Status == metav1.ConditionTrue && getCondition(cv, "ReleaseAccepted").Status == metav1.ConditionTrue
	})
	if c := getCondition(cv, "Failing"); c.Reason != "UpdatePayloadResourceForbidden" && !strings.Contains(c.Message, "forbidden") {
		t.Errorf("got condition Failing %+v, want that the update is forbidden", c)
	}

	f.expectEvents("PayloadLoaded")
	f.CreateConfig("cluster-version-operator/cluster_admin.yaml")
	f.waitForAuthorizer(true)
	// New work starts at once, without the retry interval after a failure.
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) {
		spec.Overrides = []configv1.ComponentOverride{{Kind: "Secret", Namespace: "default", Name: "mine", Unmanaged: true}}
	})
	f.waitForVersion("the installation", isComplete("1.0.0"))
}
