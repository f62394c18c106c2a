package rollout_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func TestPhasesWaitForProbes(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(newRevision("order", 1,
		newPhase("deploy", deploymentManifest(ns, "first")),
		newPhase("publish", configMapManifest(ns, "second", "x"))))

	waiting := c.waitForCondition("order-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	want := `phase "deploy" (1 of 2) waits for Deployment "` + ns + `/first": its controller has not seen the latest change yet`
	if waiting.Message != want {
		t.Errorf("message:\n got %s\nwant %s", waiting.Message, want)
	}

	c.waitForCondition("order-1", olmv1.TypeAvailable, metav1.ConditionFalse, olmv1.ReasonProbeFailure)
	if c.Find(&corev1.ConfigMap{}, ns, "second") {
		t.Error("the second phase started before the first was ready")
	}

	c.makeDeploymentAvailable(ns, "first")
	c.waitUntilSucceeded("order-1")
	set := &olmv1.ClusterObjectSet{}
	c.get(set, "", "order-1")
	if len(set.Status.ObservedPhases) != 2 || !strings.HasPrefix(set.Status.ObservedPhases[0].Digest, "sha256:") {
		t.Errorf("got observedPhases %+v", set.Status.ObservedPhases)
	}

	var made corev1.ConfigMap
	c.get(&made, ns, "second")
	if made.Labels[olmv1.LabelOwnerKind] != "ClusterExtension" || made.Labels[olmv1.LabelOwnerName] != "order" {
		t.Errorf("got labels %v", made.Labels)
	}
	if owner := metav1.GetControllerOf(&made); owner == nil || owner.UID != set.UID || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
		t.Errorf("got the controller %+v", owner)
	}

	for _, entry := range made.ManagedFields {
		if entry.Manager != "mainstay" || entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("got the field manager %s (%s)", entry.Manager, entry.Operation)
		}
	}
}

func TestDriftHeals(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(newRevision("drift", 1, newPhase("deploy", deploymentManifest(ns, "app"), configMapManifest(ns, "config", "right"))))
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("drift-1")

	// A changed field is reset, a foreign field stays.
	config := &corev1.ConfigMap{}
	c.get(config, ns, "config")
	config.Data = map[string]string{"key": "wrong", "other": "stays"}
	if err := c.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the field is reset", func() error {
		c.get(config, ns, "config")
		return errorUnless(config.Data["key"] == "right", "key is %q", config.Data["key"])
	})
	if config.Data["other"] != "stays" {
		t.Error("a field that the manifest does not set was removed")
	}

	// A removed label is restored, although the watch selects objects by this label.
	delete(config.Labels, olmv1.LabelOwnerKind)
	if err := c.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the label is restored", func() error {
		c.get(config, ns, "config")
		return errorUnless(config.Labels[olmv1.LabelOwnerKind] != "", "labels are %v", config.Labels)
	})

	// A deleted object is recreated.
	uid := config.UID
	if err := c.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilExists(config, ns, "config")
	if config.UID == uid {
		t.Error("the object was not deleted")
	}

	// Replicas that an autoscaler sets stay, as the manifest does not set them.
	app := &appsv1.Deployment{}
	c.get(app, ns, "app")
	three := int32(3)
	app.Spec.Replicas = &three
	if err := c.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}

	c.waitForCondition("drift-1", olmv1.TypeAvailable, metav1.ConditionFalse, olmv1.ReasonProbeFailure)
	c.waitForCondition("drift-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("drift-1")
	c.get(app, ns, "app")
	if *app.Spec.Replicas != 3 {
		t.Errorf("got %d replicas", *app.Spec.Replicas)
	}
}

// TestSetsWithoutOwnerLabelsAreWatched changes objects of complete sets. Without an event, a complete set is reconciled after
// ten minutes, which is longer than the test waits: only the watches can report the changes.
func TestSetsWithoutOwnerLabelsAreWatched(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	long := strings.Repeat("long.", 20) + "name"
	labels := map[string]string{"unlabelled": "unlabelled", long: long[:52] + "-651632d0d8"}
	for set, label := range labels {
		made := newRevision("unlabelled", 1, newPhase("deploy", deploymentManifest(ns, "app")), newPhase("publish", configMapManifest(ns, "config", "right")))
		made.Name, made.Labels = set, nil
		c.CreateAll(made)
		c.waitForCondition(set, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
		c.makeDeploymentAvailable(ns, "app")
		c.waitUntilSucceeded(set)

		config := &corev1.ConfigMap{}
		c.get(config, ns, "config")
		config.Data["key"] = "wrong"
		c.Must(c.Update(t.Context(), config))
		c.Eventually("the field is reset", func() error {
			c.get(config, ns, "config")
			return errorUnless(config.Data["key"] == "right", "key is %q", config.Data["key"])
		})
		if got := config.Labels[olmv1.LabelOwnerName]; got != label {
			t.Errorf("label %s: got %q, want %q", olmv1.LabelOwnerName, got, label)
		}

		app := &appsv1.Deployment{}
		c.get(app, ns, "app")
		app.Status = appsv1.DeploymentStatus{}
		c.Must(c.Status().Update(t.Context(), app))
		c.waitForCondition(set, olmv1.TypeAvailable, metav1.ConditionFalse, olmv1.ReasonProbeFailure)

		c.Must(c.Delete(t.Context(), made))
		c.WaitUntilGone(made, "", set)
	}
}

func TestCustomResourceAfterItsDefinition(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(newRevision("kinds", 1,
		newPhase("crds", crdManifest("Gadget", "gadgets")),
		newPhase("deploy", customResourceManifest("Gadget", ns, "one"))))
	c.waitUntilSucceeded("kinds-1")

	// The kind and its instance are recreated, and the instance is watched again.
	gadget := builder.FromYAML(customResourceManifest("Gadget", ns, "one"))
	c.get(gadget, ns, "one")
	first := gadget.GetUID()
	if err := c.Delete(t.Context(), builder.FromYAML(crdManifest("Gadget", "gadgets"))); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the instance is recreated", func() error {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "one"}, gadget)
		return errors.Join(err, errorUnless(gadget.GetUID() != first, "it is still the first"))
	})
	c.waitUntilSucceeded("kinds-1")
	if err := unstructured.SetNestedField(gadget.Object, int64(7), "spec", "size"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(t.Context(), gadget); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the size is reset", func() error {
		c.get(gadget, ns, "one")
		size, _, _ := unstructured.NestedInt64(gadget.Object, "spec", "size")
		return errorUnless(size == 1, "size is %d", size)
	})
}
