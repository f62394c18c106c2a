package installplan_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// referTo creates a Subscription that refers to a plan.
func (w *fixture) referTo(plan *v1alpha1.InstallPlan) {
	w.T.Helper()
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "kettle-"},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "shop", CatalogSourceNamespace: "olm", Package: "kettle"},
	}
	w.Must(w.Create(w.T.Context(), sub))
	before := sub.DeepCopy()
	now := metav1.Now()
	sub.Status.LastUpdated = now
	sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: plan.Namespace, Name: plan.Name, UID: plan.UID}
	w.Must(w.Status().Patch(w.T.Context(), sub, client.MergeFrom(before)))
}

// serveKind creates the CRD of a kind until the test ends. Each test uses a kind of its own, because a cluster serves a
// kind for a while after the deletion.
func (w *fixture) serveKind(group, plural, kind string) {
	w.T.Helper()
	crd := &unstructured.Unstructured{}
	manifest := strings.NewReplacer("example.com", group, kindOf(plural), kind).Replace(crdManifest(plural, "v1", ""))
	w.Must(crd.UnmarshalJSON([]byte(manifest)))
	w.CreateForTest(crd)
}

// A failed plan to which a Subscription refers is completed when the cause of the failure is removed. Until then it stays
// failed, and names the cause.
func TestFailedPlanRecovers(t *testing.T) {
	w := newFixture(t, 0)
	const rule = `{"apiVersion":"monitoring.coreos.com/v1","kind":"PrometheusRule","metadata":{"name":"kettle"}}`
	plan := w.createPlan("plan", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1"), rule))
	w.referTo(plan)
	plan.Spec.Approved = true
	w.Must(w.Update(t.Context(), plan))
	failed := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseFailed)
	if c := failed.Status.Conditions; !strings.HasPrefix(failed.Status.Message, "api-server resource not found installing PrometheusRule kettle: ") ||
		len(c) != 1 || c[0].Status != "False" || c[0].Reason != "InstallComponentFailed" || c[0].Message != failed.Status.Message {
		t.Errorf("the failed plan is %s", describe(failed))
	}

	w.serveKind("monitoring.coreos.com", "prometheusrules", "PrometheusRule")
	complete := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	if c := complete.Status.Conditions; complete.Status.Message != "" || len(c) != 1 || c[0].Status != "True" || c[0].Reason != "" {
		t.Errorf("the complete plan is %s", describe(complete))
	}
	if !complete.Status.StartTime.Equal(failed.Status.StartTime) {
		t.Errorf("got the start times %v and %v, want the same", failed.Status.StartTime, complete.Status.StartTime)
	}
}

// A plan that has been failing for long is retried rarely, but at once when its kind is served.
func TestServedKindEndsFailure(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createGroup("group", "", "")
	const sample = `{"apiVersion":"console.openshift.io/v1","kind":"ConsoleYAMLSample","metadata":{"name":"kettle"}}`
	plan := w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), sample))
	w.referTo(plan)
	w.PatchStatus(plan, func() {
		plan.Status.Phase, plan.Status.StartTime = v1alpha1.InstallPlanPhaseFailed, &metav1.Time{Time: time.Now().Add(-time.Hour)}
	})
	w.startController(0)
	w.eventually("plan", "the failure", func(p *v1alpha1.InstallPlan) bool { return p.Status.Message != "" })

	w.serveKind("console.openshift.io", "consoleyamlsamples", "ConsoleYAMLSample")
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete) // It waits less than the retry interval, five minutes.
}

// A plan whose approval is withdrawn is not executed until it is approved again.
func TestApprovalWithdrawn(t *testing.T) {
	w := newFixture(t, time.Hour)
	const link = `{"apiVersion":"console.openshift.io/v1","kind":"ConsoleLink","metadata":{"name":"kettle"}}`
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), link))
	plan := w.eventually("plan", "a retry", func(p *v1alpha1.InstallPlan) bool { return p.Status.Message != "" })
	started := plan.Status.StartTime
	approve := func(approved bool) {
		w.PatchObject(plan, func() { plan.Spec.Approved = approved })
	}

	approve(false)
	plan = w.waitForPhase("plan", v1alpha1.InstallPlanPhaseRequiresApproval)
	if started == nil || plan.Status.StartTime != nil || plan.Status.Message != "" {
		t.Errorf("got the start time %v (before: %v) and the message %q, want none now", plan.Status.StartTime, started, plan.Status.Message)
	}

	w.serveKind("console.openshift.io", "consolelinks", "ConsoleLink")
	approve(true)
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
}
