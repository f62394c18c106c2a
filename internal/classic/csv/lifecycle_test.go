package csv_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// An operator is installed, phase by phase, once its service account and its permissions exist.
func TestInstall(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Annotations = map[string]string{"alm-examples": "[]"}
		csv.Spec.InstallStrategy.StrategySpec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "operator", Rules: []rbacv1.PolicyRule{rule}}}
	}))
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet)
	want := []v1alpha1.RequirementStatus{{Version: "v1", Kind: "ServiceAccount", Name: "operator", Status: v1alpha1.RequirementNotPresent, Message: "Service account does not exist"}}
	if diff := cmp.Diff(want, csv.Status.RequirementStatus); diff != "" {
		t.Errorf("requirements (-want +got):\n%s", diff)
	}

	c.createServiceAccount()
	role, binding := builder.Role(metav1.ObjectMeta{Namespace: c.namespace, Name: "by-hand"}, []rbacv1.PolicyRule{rule}, builder.ServiceAccountSubject(c.namespace, "operator"))
	c.CreateAll(role, binding)
	csv = c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	if want := `installing: waiting for deployment etcd to become ready: deployment "etcd" not available: missing condition "Available"`; csv.Status.Message != want {
		// The Deployment has not been observed before its first status.
		if waiting := `installing: waiting for deployment etcd to become ready: waiting for spec update of deployment "etcd" to be observed...`; csv.Status.Message != waiting {
			t.Errorf("message %q", csv.Status.Message)
		}
	}

	c.markDeploymentAvailable("etcd")
	csv = c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	steps := []string{
		"Pending/RequirementsUnknown", "Pending/RequirementsNotMet", "InstallReady/AllRequirementsMet",
		"Installing/InstallSucceeded", "Installing/InstallWaiting", "Succeeded/InstallSucceeded",
	}
	got := conditionHistory(csv)
	if got[0] == "Failed/NoTargetNamespaces" {
		got = got[1:] // It may be reconciled before its group.
	}
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if !cmp.Equal(csv.Finalizers, []string{csvinfo.Finalizer}) {
		t.Errorf("finalizers %v", csv.Finalizers)
	}

	d := c.waitForDeployment("etcd")
	wantAnnotations := map[string]string{
		"alm-examples": "[]", csvinfo.AnnotationOperatorGroup: "group", csvinfo.AnnotationOperatorNamespace: c.namespace, csvinfo.AnnotationTargetNamespaces: c.namespace,
	}
	if diff := cmp.Diff(wantAnnotations, d.Spec.Template.Annotations); diff != "" {
		t.Errorf("annotations of the pods (-want +got):\n%s", diff)
	}
	if !csvinfo.HasLabels(d.Labels, csvinfo.OwnerLabels(c.namespace, "etcd.v1.0.0")) || d.Labels[csvinfo.LabelManaged] != "true" {
		t.Errorf("labels of the Deployment: %v", d.Labels)
	}
	if !csvinfo.IsOwner(d.OwnerReferences, csv) {
		t.Errorf("owners of the Deployment: %v", d.OwnerReferences)
	}
}

// Edited or deleted objects of an installation are restored.
func TestRepair(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	before := c.waitForDeployment("etcd")
	edited := before.DeepCopy()
	edited.Spec.Template.Annotations[csvinfo.AnnotationTargetNamespaces] = "elsewhere"
	edited.Spec.Template.Spec.Containers[0].Image = "registry.example.com/other"
	c.Must(c.Update(t.Context(), edited))
	c.eventually("the Deployment is as before", func() bool {
		d := c.waitForDeployment("etcd")
		return cmp.Equal(before.Spec.Template, d.Spec.Template)
	})
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")

	c.Must(c.Delete(t.Context(), before))
	c.eventually("the Deployment is made anew", func() bool {
		d := &appsv1.Deployment{}
		return c.Get(t.Context(), client.ObjectKeyFromObject(before), d) == nil && d.UID != before.UID
	})
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
}

// An unhealthy Deployment fails the ClusterServiceVersion, and a healthy one makes it succeed again.
func TestUnhealthy(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	c.setDeploymentStatus("etcd", appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "no pods"})
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	if want := `installing: waiting for deployment etcd to become ready: deployment "etcd" not available: no pods`; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	c.markDeploymentAvailable("etcd")
	csv = c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	want := []string{
		"Failed/ComponentUnhealthy", "Pending/NeedsReinstall", "InstallReady/AllRequirementsMet", "Installing/InstallSucceeded", "Installing/InstallWaiting", "Succeeded/InstallSucceeded",
	}
	got := conditionHistory(csv)
	if diff := cmp.Diff(want, got[len(got)-len(want):]); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	c.setDeploymentStatus("etcd", appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"})
	csv = c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed)
	if want := `install failed: deployment etcd not ready before timeout: deployment "etcd" exceeded its progress deadline`; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	c.markDeploymentAvailable("etcd")
	c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
}

// A newer version replaces an older one, which is deleted when the newer one has succeeded.
func TestReplace(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	old := c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	upgrades := c.readUpgradeCount()
	c.CreateAll(c.newCSV("etcd.v2.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.Replaces = "etcd.v1.0.0"
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "registry.example.com/etcd:2"
	}))
	csv := c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced)
	if want := "being replaced by csv: etcd.v2.0.0"; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	c.waitForPhase("etcd.v2.0.0", v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	if still := c.get("etcd.v1.0.0"); still.Status.Phase != v1alpha1.CSVPhaseReplacing {
		t.Errorf("got phase %s of the old one before the new one is healthy", still.Status.Phase)
	}

	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(old)
	if got := c.readUpgradeCount() - upgrades; got != 1 {
		t.Errorf("got %v more in csv_upgrade_count, want 1", got)
	}
	d := c.waitForDeployment("etcd")
	if owners := d.OwnerReferences; len(owners) != 1 || owners[0].Name != "etcd.v2.0.0" || d.Spec.Template.Spec.Containers[0].Image != "registry.example.com/etcd:2" {
		t.Errorf("got the owners %v and the image %s of the Deployment", owners, d.Spec.Template.Spec.Containers[0].Image)
	}
}

// readUpgradeCount returns the metric csv_upgrade_count of the process.
func (c *fixture) readUpgradeCount() float64 {
	c.T.Helper()
	families, err := metrics.Registry.Gather()
	c.Must(err)
	for _, family := range families {
		if family.GetName() == "csv_upgrade_count" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}

	c.T.Fatal("there is no metric csv_upgrade_count")
	return 0
}

// A newer version has another selector in its Deployment, which cannot be changed. The Deployment is
// recreated. A Deployment that belongs to no operator stays.
func TestChangedSelector(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	old := c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	before := c.waitForDeployment("etcd")
	labels := map[string]string{"app.kubernetes.io/name": "other"}
	reselect := func(csv *v1alpha1.ClusterServiceVersion) {
		spec := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec
		spec.Selector, spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	}
	c.CreateAll(c.newCSV("etcd.v2.0.0", reselect, func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = "etcd.v1.0.0" }))
	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(old)
	if after := c.waitForDeployment("etcd"); after.UID == before.UID || after.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != "other" {
		t.Errorf("got the Deployment %s with the selector %v, want another one with the new selector", after.UID, after.Spec.Selector)
	}

	foreign := before.DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: c.namespace, Name: "foreign"}
	c.CreateAll(foreign)
	c.CreateAll(c.newCSV("foreign.v1.0.0", reselect))
	c.eventually("the installation fails", func() bool {
		return slices.Contains(conditionHistory(c.get("foreign.v1.0.0")), "Failed/InstallComponentFailed")
	})
	if after := c.waitForDeployment("foreign"); after.UID != foreign.UID {
		t.Errorf("got the Deployment %s of another client, want %s", after.UID, foreign.UID)
	}
}
