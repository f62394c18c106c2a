package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func TestCollisionProtection(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	controlled := metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "someone", UID: "11111111-2222-3333-4444-555555555555", Controller: new(bool),
	}
	*controlled.Controller = true
	cases := []struct {
		name       string
		protection olmv1.CollisionProtection
		owners     []metav1.OwnerReference
		managed    bool
		because    string
	}{
		{name: "prevent", protection: olmv1.CollisionProtectionPrevent, because: "it is not controlled by anything"},
		{name: "adopt", protection: olmv1.CollisionProtectionIfNoController, managed: true},
		{name: "controlled", protection: olmv1.CollisionProtectionIfNoController, owners: []metav1.OwnerReference{controlled},
			because: `it is controlled by Deployment "someone"`},
		{name: "take", protection: olmv1.CollisionProtectionNone, owners: []metav1.OwnerReference{controlled}, managed: true},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			existing := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: test.name, OwnerReferences: test.owners},
				Data:       map[string]string{"key": "theirs", "more": "theirs"},
			}
			c.CreateAll(existing)
			extension := "collision-" + test.name
			only := newPhase("configuration", configMapManifest(ns, test.name, "ours"))
			only.Objects[0].CollisionProtection = test.protection
			c.CreateAll(newRevision(extension, 1, only))
			if !test.managed {
				got := c.waitForCondition(extension+"-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
				want := fmt.Sprintf("ConfigMap '%s' already exists in namespace '%s' and cannot be managed by operator-controller: %s", test.name, ns, test.because)
				if !strings.Contains(got.Message, want) {
					t.Errorf("message:\n got %s\nwant %s", got.Message, want)
				}

				c.get(existing, ns, test.name)
				if existing.Data["key"] != "theirs" || len(existing.Labels) > 0 || len(existing.OwnerReferences) != len(test.owners) {
					t.Errorf("the object was changed: %+v", existing)
				}
				// It continues when the other object is deleted.
				if err := c.Delete(t.Context(), existing); err != nil {
					t.Fatal(err)
				}
			}

			c.waitUntilSucceeded(extension + "-1")
			c.get(existing, ns, test.name)
			owner := metav1.GetControllerOf(existing)
			if owner == nil || owner.Name != extension+"-1" || existing.Data["key"] != "ours" {
				t.Errorf("the object was not taken over: %+v", existing)
			}
			if test.managed && existing.Data["more"] != "theirs" {
				t.Error("a field that the manifest does not set was removed")
			}
		})
	}
}

func TestTwoExtensionsCannotShareAnObject(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(newRevision("first", 1, newPhase("configuration", configMapManifest(ns, "shared", "first"))))
	c.waitUntilSucceeded("first-1")
	c.CreateAll(newRevision("second", 1, newPhase("configuration", configMapManifest(ns, "shared", "second"))))
	got := c.waitForCondition("second-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	want := `it is controlled by ClusterObjectSet "first-1" of ClusterExtension "first"`
	if !strings.Contains(got.Message, want) {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	shared := &corev1.ConfigMap{}
	c.get(shared, ns, "shared")
	if shared.Data["key"] != "first" {
		t.Error("the object was reassigned")
	}

	// Removing the second does not delete the objects of the first.
	second := &olmv1.ClusterObjectSet{}
	c.get(second, "", "second-1")
	if err := c.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(second, "", "second-1")
	c.get(shared, ns, "shared")
}

func TestUpdateTakesOverAndArchiveRemovesTheRest(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(newRevision("update", 1,
		newPhase("configuration", configMapManifest(ns, "kept", "v1"), configMapManifest(ns, "dropped", "v1")),
		newPhase("deploy", configMapManifest(ns, "late", "v1"))))
	c.waitUntilSucceeded("update-1")
	kept := &corev1.ConfigMap{}
	c.get(kept, ns, "kept")
	uid := kept.UID

	// The second revision waits for its Deployment. The objects of later phases still belong to the first revision.
	c.CreateAll(newRevision("update", 2,
		newPhase("configuration", configMapManifest(ns, "kept", "v2"), configMapManifest(ns, "added", "v2")),
		newPhase("infrastructure", deploymentManifest(ns, "gate")),
		newPhase("deploy", configMapManifest(ns, "late", "v2"))))
	c.waitForCondition("update-2", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	c.WaitUntilExists(&corev1.ConfigMap{}, ns, "added")
	c.get(kept, ns, "kept")
	if owner := metav1.GetControllerOf(kept); owner == nil || owner.Name != "update-2" || kept.UID != uid || kept.Data["key"] != "v2" || len(kept.OwnerReferences) != 1 {
		t.Errorf("the second revision has not taken the object over: %+v", kept)
	}

	// The first restores its own objects, and does not write those of the second.
	late := &corev1.ConfigMap{}
	c.get(late, ns, "late")
	late.Data["key"] = "wrong"
	if err := c.Update(t.Context(), late); err != nil {
		t.Fatal(err)
	}

	c.Eventually("the first revision restores its own object", func() error {
		c.get(late, ns, "late")
		return errorUnless(late.Data["key"] == "v1", "key is %q", late.Data["key"])
	})
	c.get(kept, ns, "kept")
	if kept.Data["key"] != "v2" {
		t.Error("the first revision took an object of the second back")
	}

	c.makeDeploymentAvailable(ns, "gate")
	c.waitUntilSucceeded("update-2")
	c.Eventually("the first revision reports the lost objects", func() error {
		got := c.waitForCondition("update-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded).Message
		return errorUnless(got == "All objects are rolled out: 3 objects in 2 phases, of which a later revision has taken over 2", "message is %q", got)
	})
	c.archiveAndWait("update-1")
	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "dropped")
	for _, name := range []string{"kept", "added", "late"} {
		object := &corev1.ConfigMap{}
		c.get(object, ns, name)
		if object.Data["key"] != "v2" || object.DeletionTimestamp != nil {
			t.Errorf("%s does not belong to the second revision: %+v", name, object)
		}
	}

	first := &olmv1.ClusterObjectSet{}
	c.get(first, "", "update-1")
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(first, "", "update-1")
	c.get(kept, ns, "kept")
}

// Objects that an older revision takes back are never deleted in between: with a CRD every
// object of its kind would be lost.
func TestOlderRevisionTakesBackWhatALaterOneGivesUp(t *testing.T) {
	for name, giveUp := range map[string]func(c *fixture, set *olmv1.ClusterObjectSet){
		"archived": func(c *fixture, set *olmv1.ClusterObjectSet) { c.archiveAndWait(set.Name) },
		"deleted": func(c *fixture, set *olmv1.ClusterObjectSet) {
			c.Must(c.Delete(c.T.Context(), set))
			c.WaitUntilGone(set, "", set.Name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t)
			ns := c.NewNamespace("rollout-")
			c.startController()
			definition := crdManifest("Cup", "cups")
			c.CreateAll(newRevision("rollback", 1, newPhase("crds", definition), newPhase("configuration", configMapManifest(ns, "config", "v1"))))
			c.waitUntilSucceeded("rollback-1")
			instance := builder.FromYAML(customResourceManifest("Cup", ns, "one"))
			c.CreateAll(instance)
			uid := instance.GetUID()

			second := newRevision("rollback", 2, newPhase("crds", definition), newPhase("configuration", configMapManifest(ns, "config", "v2"), configMapManifest(ns, "added", "v2")),
				newPhase("deploy", deploymentManifest(ns, "gate")))
			c.CreateAll(second)
			c.waitForCondition("rollback-2", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
			c.WaitUntilExists(&appsv1.Deployment{}, ns, "gate")
			giveUp(c, second)
			c.WaitUntilGone(&corev1.ConfigMap{}, ns, "added")
			c.Eventually("the first revision has its object again", func() error {
				config := &corev1.ConfigMap{}
				c.get(config, ns, "config")
				owner := metav1.GetControllerOf(config)
				return errorUnless(config.Data["key"] == "v1" && config.DeletionTimestamp == nil && owner != nil && owner.Name == "rollback-1", "it is %+v", config)
			})

			c.get(instance, ns, "one")
			if instance.GetUID() != uid || instance.GetDeletionTimestamp() != nil {
				t.Errorf("the object of the revision's kind was deleted: %+v", instance.Object["metadata"])
			}
		})
	}
}

// As long as the older revision cannot take an object back, it stays with the revision that was
// stopped.
func TestGivingUpWaitsForTheRevisionThatStays(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "installer"}})
	binding := c.grantConfigMaps(ns, "installer")
	c.CreateAll(withServiceAccount(newRevision("patience", 1, newPhase("configuration", configMapManifest(ns, "config", "v1"))), ns, "installer"))
	c.waitUntilSucceeded("patience-1")
	second := newRevision("patience", 2, newPhase("configuration", configMapManifest(ns, "config", "v2")), newPhase("publish", configMapManifest(ns, "added", "v2")))
	c.CreateAll(second)
	c.waitUntilSucceeded("patience-2")
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}

	c.get(second, "", "patience-2")
	second.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if err := c.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "added")
	c.expectWaiting("patience-2", `removing phase "configuration" (1 of 2) waits for ConfigMap "`+ns+`/config": the remaining revision is about to take it over`)
	config := &corev1.ConfigMap{}
	if c.get(config, ns, "config"); config.Data["key"] != "v2" || config.DeletionTimestamp != nil {
		t.Errorf("the object was changed: %+v", config)
	}

	uid := config.UID

	binding.ResourceVersion, binding.UID = "", ""
	c.CreateAll(binding)
	c.waitForCondition("patience-2", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonArchived)
	if c.get(config, ns, "config"); config.Data["key"] != "v1" || config.UID != uid {
		t.Errorf("the first revision has not taken it back: %+v", config)
	}
}

// A revision that was never ready does not succeed because of a later one.
func TestUnfinishedRevisionDoesNotSucceedByALaterOne(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	both := []string{configMapManifest(ns, "config", "x"), deploymentManifest(ns, "gate")}
	c.CreateAll(newRevision("stuck", 1, newPhase("deploy", both...), newPhase("publish", configMapManifest(ns, "late", "x"))))
	c.waitForCondition("stuck-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	c.CreateAll(newRevision("stuck", 2, newPhase("deploy", both...)))
	c.Eventually("the second revision has the deployment", func() error {
		d := &appsv1.Deployment{}
		c.get(d, ns, "gate")
		return errorUnless(metav1.GetControllerOf(d).Name == "stuck-2", "it has not")
	})
	c.makeDeploymentAvailable(ns, "gate")
	c.waitUntilSucceeded("stuck-2")
	c.expectWaiting("stuck-1", "a later revision has taken over 2 of the 2 objects so far: nothing more is rolled out")
	first := &olmv1.ClusterObjectSet{}
	c.get(first, "", "stuck-1")
	if meta.FindStatusCondition(first.Status.Conditions, olmv1.TypeSucceeded) != nil || c.Find(&corev1.ConfigMap{}, ns, "late") {
		t.Errorf("the first revision continued: %+v", first.Status.Conditions)
	}
}
