package installplan_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// TestRestartAfterEachWrite executes a plan by instances that stop: the first after its first write, the next after
// its second, and so on, until one finishes.
func TestRestartAfterEachWrite(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createGroup("group", "", "")
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest("flasks", "v1", ""), secretManifest))
	if deaths := w.runMortals("plan", v1alpha1.InstallPlanPhaseComplete, time.Hour); deaths < 5 {
		t.Errorf("got %d stopped instances, too few for this test", deaths)
	}
	w.checkStepsDone("plan")
}

// A plan that fails, and is completed when the cause is removed, survives instances that stop after each write.
func TestRestartOfFailedPlan(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createGroup("group", "", "")
	const plugin = `{"apiVersion":"console.openshift.io/v1","kind":"ConsolePlugin","metadata":{"name":"kettle"}}`
	w.referTo(w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest("jugs", "v1", ""), plugin)))
	w.runMortals("plan", v1alpha1.InstallPlanPhaseFailed, 0)
	w.serveKind("console.openshift.io", "consoleplugins", "ConsolePlugin")
	w.runMortals("plan", v1alpha1.InstallPlanPhaseComplete, 0)
	w.checkStepsDone("plan")
}

// runMortals runs instances, each of which may write once more than the one before, until a plan has a phase. It returns
// how many there were.
func (w *fixture) runMortals(name string, phase v1alpha1.InstallPlanPhase, retry time.Duration) int {
	w.T.Helper()
	isDone := func() bool { return w.get(name).Status.Phase == phase }
	lives := 0
	for writes := int64(1); !isDone(); writes++ {
		if writes > 50 {
			w.T.Fatalf("phase %s not reached after 50 writes of one instance: %s", phase, describe(w.get(name)))
		}

		life := mortal.Start(w.T.Context(), env.ConfigWithRoles(w.T, catalogOperatorRoles), writes, func(ctx context.Context, connection *rest.Config) {
			mgr, err := env.NewManager(connection, ctrl.Options{Scheme: w.Scheme(), GracefulShutdownTimeout: ptr.To(time.Duration(0))}, func(mgr ctrl.Manager) error {
				return installplan.Setup(mgr, installplan.Options{Namespace: "default", RetryTimeout: retry})
			})
			if err == nil { // The result shows whether the write succeeded.
				_ = mgr.Start(ctx)
			}
		})

		w.waitUntil("the end, or death", func() bool { return life.IsDead() || isDone() })
		life.Kill()
		lives++
	}

	return lives
}

// checkStepsDone checks that all steps of a plan are done.
func (w *fixture) checkStepsDone(name string) {
	w.T.Helper()
	for _, step := range w.get(name).Status.Plan {
		if step.Status != v1alpha1.StepStatusCreated && step.Status != v1alpha1.StepStatusPresent {
			w.T.Errorf("%s %s is %s", step.Resource.Kind, step.Resource.Name, step.Status)
		}
		w.checkOwnership(step)
	}
}
