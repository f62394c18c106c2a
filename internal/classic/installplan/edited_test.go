package installplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// editStatus changes the status of a plan.
func (w *fixture) editStatus(name string, edit func(*v1alpha1.InstallPlanStatus)) {
	w.T.Helper()
	w.Must(reconcile.RetryStale(func() error {
		plan := w.get(name)
		edit(&plan.Status)
		return w.Status().Update(w.T.Context(), plan)
	}))
}

// approve approves a plan.
func (w *fixture) approve(name string) {
	w.T.Helper()
	plan := w.get(name)
	w.PatchObject(plan, func() { plan.Spec.Approved = true })
}

// A plan whose steps were edited into something that cannot be installed fails with the cause. It completes by itself when
// the steps are corrected.
func TestEditedSteps(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(*v1alpha1.Step)
		want   string
		status v1alpha1.StepStatus
	}{
		"a manifest that is not JSON":     {func(s *v1alpha1.Step) { s.Resource.Manifest = "{" }, "the manifest of ConfigMap kettle cannot be read: ", v1alpha1.StepStatusUnknown},
		"a manifest of another object":    {func(s *v1alpha1.Step) { s.Resource.Name = "pot" }, `the manifest of ConfigMap pot is one of "kettle": the InstallPlan contains invalid data`, v1alpha1.StepStatusUnknown},
		"a manifest of another kind":      {func(s *v1alpha1.Step) { s.Resource.Kind = "Service" }, `the manifest of Service kettle is one of kind "ConfigMap": the InstallPlan contains invalid data`, v1alpha1.StepStatusUnknown},
		"a kind that OLM does not create": {func(s *v1alpha1.Step) { s.Resource.Kind = "Deployment" }, "the InstallPlan contains invalid data", v1alpha1.StepStatusUnsupportedResource},
		"an owner that does not exist": {
			func(s *v1alpha1.Step) { s.Resolving = "none.v1" }, `the owner of configmap kettle: reading ClusterServiceVersion `, v1alpha1.StepStatusUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, 0)
			plan := w.createPlan("plan", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kettle"},"data":{"a":"b"}}`))
			w.referTo(plan)
			at := slices.IndexFunc(plan.Status.Plan, func(s *v1alpha1.Step) bool { return s.Resource.Kind == "ConfigMap" })
			correct := *plan.Status.Plan[at]
			w.editStatus("plan", func(s *v1alpha1.InstallPlanStatus) { test.edit(s.Plan[at]) })
			w.approve("plan")
			failed := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseFailed)
			c := failed.Status.Conditions
			if !strings.HasPrefix(failed.Status.Message, test.want) || len(c) != 1 || c[0].Status != corev1.ConditionFalse || c[0].Reason != v1alpha1.InstallPlanReasonComponentFailed ||
				c[0].Message != failed.Status.Message || failed.Status.Plan[at].Status != test.status {
				t.Errorf("got %s, want %q", describe(failed), test.want)
			}

			w.editStatus("plan", func(s *v1alpha1.InstallPlanStatus) { *s.Plan[at] = correct })
			w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
		})
	}
}

// The phase of a plan follows the approval, regardless of its edited status, except that a plan whose status is Complete
// installs nothing.
func TestEditedPhase(t *testing.T) {
	w := newFixture(t, time.Hour)
	exists := func() bool {
		t.Helper()
		err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &v1alpha1.ClusterServiceVersion{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	setPhase := func(name string, phase v1alpha1.InstallPlanPhase) {
		t.Helper()
		w.editStatus(name, func(s *v1alpha1.InstallPlanStatus) { s.Phase = phase })
	}

	w.createPlan("plan", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1")))
	for _, phase := range []v1alpha1.InstallPlanPhase{v1alpha1.InstallPlanPhaseInstalling, v1alpha1.InstallPlanPhasePlanning, "Odd", ""} {
		setPhase("plan", phase)
		w.waitForPhase("plan", v1alpha1.InstallPlanPhaseRequiresApproval)
	}
	if exists() {
		t.Error("a plan without approval was executed")
	}

	w.createPlan("ended", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1")))
	setPhase("ended", v1alpha1.InstallPlanPhaseComplete)
	w.approve("ended")
	// Another completed plan shows that the controller has reconciled this one.
	w.createPlan("other", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("pot.v1")))
	w.waitForPhase("other", v1alpha1.InstallPlanPhaseComplete)
	if phase := w.get("ended").Status.Phase; exists() || phase != v1alpha1.InstallPlanPhaseComplete {
		t.Errorf("got phase %s of a plan that was edited to be complete, executed: %t", phase, exists())
	}

	w.approve("plan")
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	if !exists() {
		t.Error("the approved plan installed nothing")
	}
}
