package condition_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/condition"
	"github.com/mainstay-dev/mainstay/internal/classic/csv"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

type fixture struct{ *env.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	add := []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, authorizationv1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme, v1alpha1.AddToScheme,
	}
	c := &fixture{Fixture: env.NewFixture(t, add...)}
	notCopied, err := labels.Parse("!olm.copiedFrom")
	c.Must(err)
	c.StartManager(env.Manager{
		Roles:   "config/classic/olm-operator/role.yaml",
		Options: ctrl.Options{Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.ClusterServiceVersion{}: {Label: notCopied}}}},
		Setup:   func(mgr ctrl.Manager) error { return condition.Setup(mgr, condition.Options{}) },
	})
	return c
}

// createCSV creates a ClusterServiceVersion and a namespace of the same name.
func (c *fixture) createCSV(name string, edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	c.Must(c.Create(c.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	csv := builder.CSV(name, name)
	for _, e := range edit {
		e(csv)
	}

	c.Must(c.Create(c.T.Context(), csv))
	return csv
}

func (c *fixture) getCondition(name string) *operatorsv2.OperatorCondition {
	c.T.Helper()
	oc := &operatorsv2.OperatorCondition{}
	if err := c.Get(c.T.Context(), client.ObjectKey{Namespace: name, Name: name}, oc); client.IgnoreNotFound(err) != nil {
		c.T.Fatal(err)
	}
	return oc
}

func permission(account string) v1alpha1.StrategyDeploymentPermissions {
	return v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: []rbacv1.PolicyRule{}}
}

// An operator gets an OperatorCondition that it may write, and may write no other.
func TestOperatorConditionAndAccess(t *testing.T) {
	c := newFixture(t)
	csv := c.createCSV("one", func(csv *v1alpha1.ClusterServiceVersion) {
		s := &csv.Spec.InstallStrategy.StrategySpec
		s.Permissions = []v1alpha1.StrategyDeploymentPermissions{permission("a"), permission("b")}
		s.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{permission("b")}
	})
	c.EventuallyTrue("the OperatorCondition", func() bool { return c.getCondition("one").UID != "" }, nil)
	oc := c.getCondition("one")
	owner := []metav1.OwnerReference{{
		APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: "one", UID: csv.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}}
	want := []any{owner, operatorsv2.OperatorConditionSpec{ServiceAccounts: []string{"b", "a", "b"}}}
	if diff := cmp.Diff(want, []any{oc.OwnerReferences, oc.Spec}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	c.EventuallyTrue("its role", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(oc), role) == nil && c.Get(t.Context(), client.ObjectKeyFromObject(oc), binding) == nil
	}, nil)
	subject := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "ServiceAccount", Namespace: "one", Name: name}
	}
	want = []any{
		[]rbacv1.PolicyRule{{Verbs: []string{"get", "update", "patch"}, APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, ResourceNames: []string{"one"}}},
		[]rbacv1.Subject{subject("b"), subject("a")}, true, true, "true", "true",
	}
	got := []any{role.Rules, binding.Subjects, metav1.IsControlledBy(role, oc), metav1.IsControlledBy(binding, oc), role.Labels["olm.managed"], binding.Labels["olm.managed"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	allowed := func(name, verb string) bool {
		review := &authorizationv1.SubjectAccessReview{}
		review.Spec.User = "system:serviceaccount:one:a"
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: "one", Verb: verb, Group: "operators.coreos.com", Resource: "operatorconditions", Name: name,
		}
		c.Must(c.Create(t.Context(), review))

		return review.Status.Allowed
	}

	c.EventuallyTrue("the operator may write it", func() bool { return allowed("one", "update") }, nil)
	if allowed("other", "update") || allowed("one", "delete") || allowed("", "list") {
		t.Error("the operator may also delete or list OperatorConditions, or update another one")
	}

	// Manual changes of the objects that OLM created are reverted.
	c.Must(c.Delete(t.Context(), role))
	c.Must(c.Delete(t.Context(), binding))
	c.EventuallyTrue("the objects are restored", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(oc), role) == nil && c.Get(t.Context(), client.ObjectKeyFromObject(oc), binding) == nil
	}, nil)
	c.Must(c.Delete(t.Context(), oc))
	c.EventuallyTrue("the OperatorCondition is restored", func() bool { now := c.getCondition("one"); return now.UID != "" && now.UID != oc.UID }, nil)
}

// An operator without accounts of its own has the account "default"; a copied CSV has no OperatorCondition.
func TestDefaultAccount(t *testing.T) {
	c := newFixture(t)
	c.createCSV("copied", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Annotations = map[string]string{"olm.operatorNamespace": "elsewhere"}
	})
	csv := c.createCSV("plain")
	c.EventuallyTrue("the OperatorCondition", func() bool { return slices.Equal(c.getCondition("plain").Spec.ServiceAccounts, []string{"default"}) }, nil)
	if c.getCondition("copied").UID != "" {
		t.Error("a copied CSV has an OperatorCondition")
	}

	// A change of the strategy is applied, and an override by an administrator is kept.
	oc := c.getCondition("plain")
	oc.Spec.Overrides = []operatorsv1.ConditionOverride{{Type: "Upgradeable", Status: "True", Reason: "R", Message: "m"}}
	c.Must(c.Update(t.Context(), oc))
	before := csv.DeepCopy()
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "d"}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Selector = &metav1.LabelSelector{}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}}
	c.Must(c.Patch(t.Context(), csv, client.MergeFrom(before)))
	c.EventuallyTrue("the Deployment", func() bool {
		now := c.getCondition("plain").Spec
		return slices.Equal(now.Deployments, []string{"d"}) && len(now.Overrides) == 1
	}, nil)
}

// A condition that an operator sets is copied to the status, with the current generation after every change.
func TestConditionsOfOperators(t *testing.T) {
	c := newFixture(t)
	c.createCSV("says")
	c.EventuallyTrue("the OperatorCondition", func() bool { return c.getCondition("says").UID != "" }, nil)
	say := func(status metav1.ConditionStatus) {
		t.Helper()
		oc := c.getCondition("says")
		meta.SetStatusCondition(&oc.Spec.Conditions, metav1.Condition{Type: "Upgradeable", Status: status, Reason: "R", Message: "it says " + string(status)})
		c.Must(c.Update(t.Context(), oc))
	}

	is := func(status metav1.ConditionStatus) func() bool {
		return func() bool {
			oc := c.getCondition("says")
			got := meta.FindStatusCondition(oc.Status.Conditions, "Upgradeable")
			return got != nil && got.Status == status && got.ObservedGeneration == oc.Generation && got.Message == "it says "+string(status)
		}
	}

	gate := func() string {
		t.Helper()
		why, err := csv.UpgradeBlockedReason(t.Context(), c, "says", "says")
		c.Must(err)
		return why
	}
	if why := gate(); why != "" {
		t.Errorf("without a condition: got %q", why)
	}

	say(metav1.ConditionFalse)
	c.EventuallyTrue("False", is(metav1.ConditionFalse), nil)
	if why := gate(); why != "the operator is not upgradeable: it says False" {
		t.Errorf("got the message %q", why)
	}

	say(metav1.ConditionTrue)
	c.EventuallyTrue("True", is(metav1.ConditionTrue), nil)
	if why := gate(); why != "" {
		t.Errorf("got the message %q", why)
	}

	// Another change of the spec updates the generation of the condition.
	oc := c.getCondition("says")
	oc.Spec.Overrides = []operatorsv1.ConditionOverride{{Type: "Other", Status: "True", Reason: "R", Message: "m"}}
	c.Must(c.Update(t.Context(), oc))
	c.EventuallyTrue("the generation is updated", is(metav1.ConditionTrue), nil)
	// A condition that was removed from the spec stays in the status, and is outdated.
	oc = c.getCondition("says")
	oc.Spec.Conditions = nil
	c.Must(c.Update(t.Context(), oc))
	if why := gate(); !strings.Contains(why, "is outdated") {
		t.Errorf("got the message %q", why)
	}
	if why, err := csv.UpgradeBlockedReason(t.Context(), c, "says", "none"); why != "" || err != nil {
		t.Errorf("without an OperatorCondition: got %q, %v", why, err)
	}
}

// Both versions are served, and v1 does not lose the fields that only v2 has.
func TestVersions(t *testing.T) {
	c := newFixture(t)
	c.Must(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "versions"}}))
	old := &operatorsv1.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "versions", Name: "versions"}}
	old.Spec.Overrides = []operatorsv1.ConditionOverride{{Type: "Upgradeable", Status: "False", Reason: "R", Message: "m"}}
	c.Must(c.Create(t.Context(), old))
	meta.SetStatusCondition(&old.Status.Conditions, metav1.Condition{Type: "Upgradeable", Status: "True", Reason: "R", ObservedGeneration: 1})
	c.Must(c.Status().Update(t.Context(), old))
	oc := c.getCondition("versions")
	if len(oc.Spec.Overrides) != 1 || len(oc.Status.Conditions) != 1 {
		t.Errorf("got the spec %+v and the status %+v in v2", oc.Spec, oc.Status)
	}
}
