package rollout_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// A revision that is deleted with the annotation leaves its CRDs and every custom resource, and
// another revision of the same extension takes them over.
func TestDeletionKeepsCRDs(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	const name = "keepsakes.rollout.example.com"
	phases := []olmv1.ClusterObjectSetPhase{newPhase("crds", crdManifest("Keepsake", "keepsakes")), newPhase("deploy", configMapManifest(ns, "other", "x"))}
	set := newRevision("keeper", 1, phases...)
	set.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"}
	c.CreateAll(set)
	c.waitUntilSucceeded("keeper-1")
	c.CreateAll(builder.FromYAML(customResourceManifest("Keepsake", ns, "precious")))

	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(set, "", "keeper-1")
	if c.Find(&corev1.ConfigMap{}, ns, "other") {
		t.Error("the ConfigMap of the revision still exists")
	}

	definition, instance := builder.FromYAML(crdManifest("Keepsake", "keepsakes")), builder.FromYAML(customResourceManifest("Keepsake", ns, "precious"))
	c.get(definition, "", name)
	if definition.GetDeletionTimestamp() != nil || len(definition.GetOwnerReferences()) > 0 {
		t.Errorf("got the deletion at %v and the owners %v of the CRD, want neither", definition.GetDeletionTimestamp(), definition.GetOwnerReferences())
	}

	c.get(instance, ns, "precious")

	again := newRevision("keeper", 2, phases...)
	c.CreateAll(again)
	c.waitUntilSucceeded("keeper-2")
	c.get(definition, "", name)
	if !metav1.IsControlledBy(definition, again) {
		t.Errorf("got the owners %v of the CRD, want the new revision", definition.GetOwnerReferences())
	}
	// Without the annotation, it is deleted with the revision.
	if err := c.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(definition, "", name)
}

// If a Secret with objects is missing, it is unknown which of them are CRDs: those to keep
// would be deleted by the garbage collector.
func TestKeptCRDsInAMissingSecret(t *testing.T) {
	c := newFixture(t)
	c.startController()
	set := newRevision("unknown", 1, olmv1.ClusterObjectSetPhase{Name: "crds", Objects: []olmv1.ClusterObjectSetObject{
		{Ref: &olmv1.ObjectSourceRef{Namespace: systemNamespace, Name: "nowhere", Key: "crd"}},
	}})
	set.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"}
	set.Finalizers = []string{olmv1.FinalizerTeardown}
	c.CreateAll(set)
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the revision reports why it is not deleted", func() error {
		got := c.waitForCondition("unknown-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
		want := "its annotation mainstay.dev/keep-crds keeps its CRDs, which cannot be distinguished from the other objects without Secret " +
			"default/nowhere: restore it, or remove the annotation"
		return errorUnless(got.Message == want, "message is %q", got.Message)
	})

	c.get(set, "", "unknown-1")
	delete(set.Annotations, olmv1.AnnotationKeepCRDs)
	if err := c.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(set, "", "unknown-1")
}
