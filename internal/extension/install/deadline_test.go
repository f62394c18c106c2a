package install_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestDeadline rolls out for real: an update that does not become available is stopped
// eleven minutes later, and the revision before it takes its objects back. None of them,
// nor any object of the kinds that the extension defines, is deleted in between.
func TestDeadline(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)
	w := newFixture(t, func(controller *install.Controller) {
		controller.Preflight = preflight.Checks{preflight.NewCRDChecker(c).Check}
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	runControllers(t, c, func(mgr ctrl.Manager) error {
		return rollout.Setup(mgr, rollout.Options{SystemNamespace: "default", Clock: clock})
	})
	w.createNamespace("deadline")
	catalog := w.createCatalog("deadline", "1.0.0")
	ext := newExtension("deadline", "deadline")
	ext.Spec.ProgressDeadlineMinutes = ptr.To[int32](10)
	rollBackOnDeadline(ext)
	w.CreateForTest(ext)
	w.makeDeploymentAvailable(c, "deadline", "hello-operator")
	w.expectCondition("deadline", olmv1.TypeInstalled, "True Succeeded")
	first := w.waitForDeployment(c, "deadline-1", "v1.0.0")
	greeting := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hello.example.com/v1alpha1", "kind": "Greeting",
		"metadata": map[string]any{"name": "one", "namespace": "deadline"}, "spec": map[string]any{"name": "you"},
	}}
	if err := c.Create(t.Context(), greeting); err != nil {
		t.Fatal(err)
	}

	uid := greeting.GetUID()

	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	w.waitForDeployment(c, "deadline-2", "v1.1.0")
	w.expectCondition("deadline", olmv1.TypeProgressing, "True RollingOut")
	clock.SetTime(time.Now().Add(11 * time.Minute))
	second := w.waitForRevision("deadline-2")
	w.PatchObject(second, func() { second.Annotations["test"] = "look at it now" })

	// The definition has an additional field now, which may be in use.
	w.expectCondition("deadline", olmv1.TypeProgressing, `False ProgressDeadlineExceeded the update to bundle "hello-operator.v1.1.0" is late, but cannot be abandoned: `+
		`validating upgrade for CRD "greetings.hello.example.com" failed`)
	w.waitForLifecycleState("deadline-2", olmv1.LifecycleStateActive)
	ext = w.getExtension("deadline")
	w.PatchObject(ext, func() {
		ext.Spec.Install.Preflight = &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone},
		}
	})
	w.expectCondition("deadline", olmv1.TypeProgressing, `False ProgressDeadlineExceeded the update to bundle "hello-operator.v1.1.0" was abandoned`)
	if last := w.waitForDeployment(c, "deadline-1", "v1.0.0"); last.UID != first.UID {
		t.Error("the Deployment was deleted and recreated")
	}

	w.Eventually("the second revision has handed over everything", func() error {
		for _, condition := range w.waitForRevision("deadline-2").Status.Conditions {
			if condition.Type == olmv1.TypeProgressing && condition.Reason == olmv1.ReasonArchived {
				return nil
			}
		}
		return fmt.Errorf("got the conditions %+v", w.waitForRevision("deadline-2").Status.Conditions)
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(greeting), greeting); err != nil || greeting.GetUID() != uid || greeting.GetDeletionTimestamp() != nil {
		t.Errorf("the greeting was deleted (%v)", err)
	}

	w.makeDeploymentAvailable(c, "deadline", "hello-operator")
	w.expectCondition("deadline", olmv1.TypeAvailable, "True ProbesSucceeded")
	w.delete(w.getExtension("deadline"))
	w.Eventually("the extension is deleted", func() error {
		err := w.Get(t.Context(), client.ObjectKeyFromObject(ext), ext)
		if err == nil {
			return fmt.Errorf("got the conditions %+v", ext.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
}

// waitForDeployment waits until a revision controls the Deployment, with the image of a version.
func (w *fixture) waitForDeployment(c client.Client, revision, version string) *appsv1.Deployment {
	w.T.Helper()
	d := &appsv1.Deployment{}
	w.Eventually("the Deployment is that of "+revision, func() error {
		if err := c.Get(w.T.Context(), client.ObjectKey{Namespace: "deadline", Name: "hello-operator"}, d); err != nil {
			return err
		}
		owner := metav1.GetControllerOf(d)
		if image := d.Spec.Template.Spec.Containers[0].Image; owner == nil || owner.Name != revision || image != "registry.example.com/hello-operator:"+version {
			return fmt.Errorf("got the controller %v and the image %s", owner, image)
		}
		return nil
	})

	return d
}
