package csv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// A faulty OperatorGroup fails the ClusterServiceVersion. Once it is corrected, the operator is installed.
func TestGroups(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoOperatorGroup)
	c.WaitForEvent(csv.Status.Reason, func(e *eventsv1.Event) bool {
		return e.Reason == csv.Status.Reason && e.Note == "csv in namespace with no operatorgroups" && e.Type == corev1.EventTypeWarning &&
			e.ReportingController == "operator-lifecycle-manager" && e.Regarding.Name == csv.Name
	}, client.InNamespace(c.namespace))

	c.createGroup()
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	second := c.createGroup(func(g *operatorsv1.OperatorGroup) { g.Name = "second" })
	c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonTooManyOperatorGroups)
	c.Must(c.Delete(t.Context(), second))
	csv = c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	if got := conditionHistory(csv); !slices.Contains(got, "Pending/RequirementsUnknown") {
		t.Errorf("phases %v", got)
	}
}

// An operator that does not support what its group targets is not installed.
func TestUnsupported(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	}))
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonUnsupportedOperatorGroup)
	if want := "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}
}

// Two operators in one namespace cannot own the same CRD.
func TestOwnerConflict(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	owns := func(csv *v1alpha1.ClusterServiceVersion) {
		// Every test cluster has this CRD.
		csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "clusterextensions.olm.operatorframework.io", Version: "v1", Kind: "ClusterExtension"}}
	}
	c.CreateAll(c.newCSV("one.v1.0.0", owns))
	first := c.waitUntilSucceeded("one.v1.0.0", "one")
	c.CreateAll(c.newCSV("two.v1.0.0", owns))
	c.waitForPhase("two.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict)
	c.Must(c.Delete(t.Context(), first))
	c.waitUntilGone(first)
	c.waitUntilSucceeded("two.v1.0.0", "two")
}

// An operator is not replaced while its OperatorCondition reports that it is not upgradeable.
func TestNotUpgradeable(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	says := func(status metav1.ConditionStatus) {
		c.eventually("the operator says Upgradeable="+string(status), func() bool {
			o := &operatorsv2.OperatorCondition{}
			if c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "etcd.v1.0.0"}, o) != nil {
				return false
			}
			o.Spec.Conditions = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: status, Reason: "Busy", Message: "a backup runs", LastTransitionTime: metav1.Now()}}
			return c.Update(t.Context(), o) == nil
		})
		c.eventually("that is read", func() bool {
			o := &operatorsv2.OperatorCondition{}
			c.Must(c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "etcd.v1.0.0"}, o))
			return slices.ContainsFunc(o.Status.Conditions, func(x metav1.Condition) bool { return x.Status == status && x.ObservedGeneration == o.Generation })
		})
	}

	says(metav1.ConditionFalse)
	c.CreateAll(c.newCSV("etcd.v2.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = "etcd.v1.0.0" }))
	csv := c.waitForPhase("etcd.v2.0.0", v1alpha1.CSVPhasePending, v1alpha1.CSVReasonOperatorConditionNotUpgradeable)
	if want := "operator is not upgradeable: the operator is not upgradeable: a backup runs"; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	says(metav1.ConditionTrue)
	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "etcd.v1.0.0"}})
}

// A failed ClusterServiceVersion is replaced only if the OperatorGroup allows it.
func TestFailForward(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	g := c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitForDeployment("etcd")
	c.setDeploymentStatus("etcd", appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"})
	old := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed)
	c.CreateAll(c.newCSV("etcd.v2.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = "etcd.v1.0.0" }))
	c.waitForPhase("etcd.v2.0.0", v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown)
	c.PatchObject(g, func() { g.Spec.UpgradeStrategy = operatorsv1.UpgradeStrategyUnsafeFailForward })
	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(old)
}

// Objects are installed with the rights of the OperatorGroup's service account. An installation that
// lacks rights is retried when the rights change.
func TestAccountOfGroup(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "scoped"}})
	c.createGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.ServiceAccountName = "scoped" })
	c.eventually("the group has its account", func() bool {
		g := &operatorsv1.OperatorGroup{}
		return c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "group"}, g) == nil && g.Status.ServiceAccountRef != nil
	})
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailedNoRetry)
	want := fmt.Sprintf(`install strategy failed: deployment etcd: deployments.apps is forbidden: User "system:serviceaccount:%s:scoped" cannot create resource "deployments" in API group "apps" in the namespace "%s"`, c.namespace, c.namespace)
	if csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	role, binding := builder.Role(metav1.ObjectMeta{Namespace: c.namespace, Name: "scoped"}, builder.Rules("* * *"), builder.ServiceAccountSubject(c.namespace, "scoped"))
	c.CreateAll(role, binding)
	csv = c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	if got := conditionHistory(csv); !slices.Contains(got, "Pending/DetectedClusterChange") {
		t.Errorf("phases %v", got)
	}
}

// An operator waits for the service account of its OperatorGroup. It is not installed with the rights of olm-operator.
func TestMissingAccountOfGroup(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.ServiceAccountName = "scoped" })
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseInstallReady, v1alpha1.CSVReasonRequirementsMet)

	// Now it is installed with the rights of the account, which has none.
	c.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "scoped"}})
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailedNoRetry)
	if got := conditionHistory(csv); slices.ContainsFunc(got, func(phase string) bool { return strings.HasPrefix(phase, "Installing/") }) {
		t.Errorf("phases %v, want none of an installation before its account had rights", got)
	}
}

// An operator that loses a cluster-wide right fails, regardless of which role granted it.
func TestLostClusterRight(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	const name = "etcd.v1.0.0"
	c.CreateAll(c.newCSV(name, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "operator", Rules: []rbacv1.PolicyRule{rule}}}
	}))
	owned := csvinfo.OwnerLabels(c.namespace, name)
	for _, tt := range []struct {
		lost   string
		labels map[string]string
	}{{"rule", nil}, {"binding", nil}, {"role", owned}} {
		given := metav1.ObjectMeta{Name: c.namespace + "-" + tt.lost, Labels: tt.labels}
		role, binding := builder.ClusterRole(given, []rbacv1.PolicyRule{rule}, builder.ServiceAccountSubject(c.namespace, "operator"))
		t.Cleanup(func() { // no other test uses these names; one of the objects is already deleted
			_ = c.Delete(context.Background(), role)
			_ = c.Delete(context.Background(), binding)
		})
		c.waitForPhase(name, v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet)
		c.CreateAll(role.DeepCopy(), binding.DeepCopy())
		c.waitUntilSucceeded(name, "etcd")
		switch tt.lost {
		case "role":
			c.Must(c.Delete(t.Context(), role))
		case "binding":
			c.Must(c.Delete(t.Context(), binding))
		default:
			c.Must(c.Patch(t.Context(), role, client.RawPatch(types.MergePatchType, []byte(`{"rules":[]}`))))
		}
	}

	csv := c.waitForPhase(name, v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet)
	if got := conditionHistory(csv); !slices.Contains(got, "Failed/RequirementsNotMet") {
		t.Errorf("phases %v", got)
	}
}

// Deployments that are no longer in the install strategy are deleted.
func TestOrphans(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		spec := &csv.Spec.InstallStrategy.StrategySpec
		spec.DeploymentSpecs = append(spec.DeploymentSpecs, deploymentSpec("backup"))
	}))
	csv := c.waitUntilSucceeded("etcd.v1.0.0", "etcd", "backup")
	orphan := c.waitForDeployment("backup")
	before := csv.DeepCopy()
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[:1]
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "registry.example.com/etcd:new"
	c.Must(c.Patch(t.Context(), csv, client.MergeFrom(before)))
	c.eventually("the orphan goes", func() bool {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan)
		// There is no garbage collector here: an object that waits for it counts as deleted.
		return apierrors.IsNotFound(err) || err == nil && !orphan.DeletionTimestamp.IsZero()
	})
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
}

// The cluster-scoped objects of an operator are deleted with it, and those of others are kept.
func TestDelete(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0"), c.newCSV("other"))
	csv := c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	named := func(suffix string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: c.namespace + suffix, Labels: labels}
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	owned := csvinfo.OwnerLabels(c.namespace, csv.Name)
	role, binding := &rbacv1.ClusterRole{ObjectMeta: named("-mine", owned)}, &rbacv1.ClusterRoleBinding{ObjectMeta: named("-mine", owned), RoleRef: ref}
	other := &rbacv1.ClusterRole{ObjectMeta: named("-other", csvinfo.OwnerLabels(c.namespace, "other"))}
	c.CreateAll(role, binding, other)
	t.Cleanup(func() { _ = c.Delete(context.Background(), other) }) // no other test uses its name
	c.Must(c.Delete(t.Context(), csv))
	c.waitUntilGone(csv)
	c.waitUntilGone(role)
	c.waitUntilGone(binding)
	c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(other), other))
}

// The name of a ClusterServiceVersion is the value of a label on what it owns. A longer name than a label may have fails
// with that reason, and can be deleted.
func TestNameThatIsTooLong(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	name := "etcd.v1.0.0-" + strings.Repeat("long", 20)
	c.CreateAll(c.newCSV(name))
	csv := &v1alpha1.ClusterServiceVersion{}
	c.eventually("it fails with the reason", func() bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv)
		return err == nil && slices.ContainsFunc(csv.Status.Conditions, func(x v1alpha1.ClusterServiceVersionCondition) bool {
			return x.Phase == v1alpha1.CSVPhaseFailed && strings.Contains(x.Message, "63")
		}) // The phase itself lasts only until the next attempt.
	})
	c.Must(c.Delete(t.Context(), csv))
	c.waitUntilGone(csv)
}

// A restarted olm-operator continues an installation, and two instances at once reach the same result.
func TestRestartAndTwo(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	for _, phase := range []string{"Pending", "Installing", "Replacing"} {
		if phase == "Replacing" {
			c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
			c.CreateAll(c.newCSV("etcd.v2.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = "etcd.v1.0.0" }))
		}
		c.eventually("etcd.v1.0.0 was "+phase, func() bool {
			csv := &v1alpha1.ClusterServiceVersion{}
			err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "etcd.v1.0.0"}, csv)
			return apierrors.IsNotFound(err) || slices.ContainsFunc(csv.Status.Conditions, func(x v1alpha1.ClusterServiceVersionCondition) bool { return string(x.Phase) == phase })
		})
		c.stop()
		c.startManager()
	}

	c.startManager() // in addition to the running one
	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "etcd.v1.0.0"}})
	c.CreateAll(c.newCSV("other.v1.0.0"))
	csv := c.waitUntilSucceeded("other.v1.0.0", "other")
	for i, phase := range conditionHistory(csv) {
		if strings.HasPrefix(phase, "Failed") || slices.Contains(conditionHistory(csv)[:i], phase) {
			t.Errorf("got the conditions %v with two instances", conditionHistory(csv))
			break
		}
	}
}

// A reconcile of an unchanged installation writes nothing.
func TestQuiet(t *testing.T) {
	c := newFixture(t)
	c.createServiceAccount()
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	// A new manager reconciles what exists, and then another operator. The first restart does the writes that were pending
	// when the operator succeeded.
	restart := func(marker string) {
		c.stop()
		c.startManager()
		c.CreateAll(c.newCSV(marker + ".v1.0.0"))
		c.waitUntilSucceeded(marker+".v1.0.0", marker)
	}
	restart("yyy")
	csv, d := c.get("etcd.v1.0.0"), c.waitForDeployment("etcd")

	restart("zzz")
	if got := []string{c.get(csv.Name).ResourceVersion, c.waitForDeployment("etcd").ResourceVersion}; !cmp.Equal(got, []string{csv.ResourceVersion, d.ResourceVersion}) {
		t.Errorf("got the resource versions %v, want %v", got, []string{csv.ResourceVersion, d.ResourceVersion})
	}
}
