package rollout_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// shippedNamespace is the namespace that the shipped Role is for.
const shippedNamespace = "olmv1-system"

// startLimited runs the controller as installed with --require-service-account: with the shipped
// roles, without cluster-admin.
func (c *fixture) startLimited() {
	c.T.Helper()
	c.StartManager(env.Manager{Roles: "config/rbac/operator-controller/role.yaml", Setup: func(mgr ctrl.Manager) error {
		return rollout.Setup(mgr, rollout.Options{SystemNamespace: shippedNamespace, RequireServiceAccount: true})
	}})
	c.T.Cleanup(c.removeLeftoverSets)
}

// createInstaller creates an account that may manage only config maps of its namespace.
func (c *fixture) createInstaller(namespace string, objects ...string) {
	c.T.Helper()
	var parsed []unstructured.Unstructured
	for _, manifest := range objects {
		parsed = append(parsed, *builder.FromYAML(manifest))
	}

	grants, err := rbac.Least(rbac.Required(parsed, rbac.Options{Resource: rbac.BundleResource}))
	c.Must(err)

	for _, made := range (rbac.Installer{Extension: namespace, Namespace: namespace, ServiceAccount: "installer"}).Objects(grants) {
		c.CreateAll(made)
	}
}

// The shipped roles have no permissions for the objects of extensions: those of the account suffice to
// roll out, to detect drift, and to remove.
func TestRightsOfTheAccountSuffice(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startLimited()
	manifest := configMapManifest(ns, "config", "x")
	c.createInstaller(ns, manifest)
	packed := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: shippedNamespace, Name: "limited-1-objects"}, Immutable: ptr.To(true),
		Type: olmv1.SecretTypeObjectData, Data: map[string][]byte{"config": toJSON(t, manifest)},
	}
	set := withServiceAccount(newRevision("limited", 1, olmv1.ClusterObjectSetPhase{Name: "configuration", Objects: []olmv1.ClusterObjectSetObject{
		{Ref: &olmv1.ObjectSourceRef{Name: packed.Name, Key: "config"}},
	}}), ns, "installer")
	c.CreateAll(packed, set)
	c.waitUntilSucceeded("limited-1")

	// Without a watch, the next reconcile would be in a minute at the earliest.
	before := &corev1.ConfigMap{}
	c.get(before, ns, "config")
	if err := c.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilExists(&corev1.ConfigMap{}, ns, "config")

	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "config")
	c.WaitUntilGone(set, "", "limited-1")
}

// A revision does not copy content from a namespace that its account may not read, although
// operator-controller keeps objects of its own in Secrets.
func TestContentIsReadWithTheRightsOfTheAccount(t *testing.T) {
	c := newFixture(t)
	ns, elsewhere := c.NewNamespace("rollout-"), c.NewNamespace("rollout-")
	c.startLimited()
	manifest := configMapManifest(ns, "config", "x")
	c.createInstaller(ns, manifest)
	c.CreateAll(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "objects"}, Immutable: ptr.To(true),
		Type: olmv1.SecretTypeObjectData, Data: map[string][]byte{"config": toJSON(t, manifest)},
	}, withServiceAccount(newRevision("carrier", 1, olmv1.ClusterObjectSetPhase{Name: "configuration", Objects: []olmv1.ClusterObjectSetObject{
		{Ref: &olmv1.ObjectSourceRef{Name: "objects", Namespace: elsewhere, Key: "config"}},
	}}), ns, "installer"))

	// The roles of the account take effect a moment after they are created.
	got := c.waitForCondition("carrier-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	for _, want := range []string{`secrets "objects" is forbidden: User "system:serviceaccount:` + ns + `:installer"`, elsewhere} {
		if !strings.Contains(got.Message, want) {
			t.Errorf("message does not contain %q: %s", want, got.Message)
		}
	}
}

// Where an account is required, a revision that is written by hand needs one too: it would be
// written with the rights of operator-controller.
func TestRevisionWithoutAccountIsRefusedWhereOneIsRequired(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startLimited()
	c.CreateAll(newRevision("unnamed", 1, newPhase("configuration", configMapManifest(ns, "config", "x"))))
	got := c.waitForCondition("unnamed-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked)
	want := "the revision names no service account, and this cluster requires one: set the annotations " +
		"olm.operatorframework.io/service-account-namespace and olm.operatorframework.io/service-account-name"
	if got.Message != want {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}
	if c.Find(&corev1.ConfigMap{}, ns, "config") {
		t.Error("the object was applied")
	}
}
