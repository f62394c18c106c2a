package installplan_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// TestRestartAfterEachWrite executes a plan by instances that stop: the first after its first write, the next after
// its second, and so on, until one finishes.
func TestRestartAfterEachWrite(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createGroup("group", "", "")
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest("flasks", "v1", ""), secretManifest))
	deaths := 0
	for writes := int64(1); w.get("plan").Status.Phase != v1alpha1.InstallPlanPhaseComplete; writes++ {
		if writes > 50 {
			t.Fatalf("not done after 50 writes of one program: %s", describe(w.get("plan")))
		}

		life := mortal.Start(t.Context(), controllerConfig(w), writes, func(ctx context.Context, connection *rest.Config) {
			options, atOnce := managerOptions(w), time.Duration(0)
			options.GracefulShutdownTimeout = &atOnce
			mgr, err := ctrl.NewManager(connection, options)
			// The result shows whether it works.
			if err != nil || installplan.Setup(mgr, installplan.Options{Namespace: "default", RetryTimeout: time.Hour}) != nil {
				return
			}

			_ = mgr.Start(ctx)
		})

		w.waitUntil("the end, or death", func() bool {
			return life.IsDead() || w.get("plan").Status.Phase == v1alpha1.InstallPlanPhaseComplete
		})
		life.Kill()
		deaths++
	}

	if deaths < 5 {
		t.Errorf("%d programs died: the test shows little", deaths)
	}

	for _, step := range w.get("plan").Status.Plan {
		if step.Status != v1alpha1.StepStatusCreated && step.Status != v1alpha1.StepStatusPresent {
			t.Errorf("%s %s is %s", step.Resource.Kind, step.Resource.Name, step.Status)
		}
		w.checkOwnership(step)
	}
}
