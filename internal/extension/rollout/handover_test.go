package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// TestHandOverByProgramsThatDie rolls back an update that is stuck half-way, by programs that are killed
// after their first write, after their second, and so on. Every object that both revisions contain
// returns to the first revision: the same object, never deleted, without fields of the second.
// Objects of only the second revision are deleted.
func TestHandOverByProgramsThatDie(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	stop := c.startController()
	definition := crdManifest("Plate", "plates")
	c.CreateAll(newRevision("handover", 1, newPhase("crds", definition), newPhase("configuration", configMapManifest(ns, "config", "v1")), newPhase("deploy", deploymentManifest(ns, "app"))))
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("handover-1")
	instance := builder.FromYAML(customResourceManifest("Plate", ns, "one"))
	c.CreateAll(instance)
	before := c.sharedObjectIdentities(ns)

	second := newRevision("handover", 2,
		newPhase("crds", definition, crdManifest("Saucer", "saucers")),
		newPhase("configuration", strings.Replace(configMapManifest(ns, "config", "v2"), "data: {", "data: {extra: v2, ", 1), configMapManifest(ns, "added", "v2")),
		newPhase("deploy", strings.Replace(deploymentManifest(ns, "app"), "main:v1", "main:v2", 1)),
		newPhase("publish", configMapManifest(ns, "late", "v2")))
	c.CreateAll(second)
	c.Eventually("the update is stuck at its Deployment", func() error {
		app := &appsv1.Deployment{}
		c.get(app, ns, "app")
		return errorUnless(app.Spec.Template.Spec.Containers[0].Image == "example.com/main:v2", "its image is %s", app.Spec.Template.Spec.Containers[0].Image)
	})
	stop()

	deletions := c.watchDeletions(ns)
	c.get(second, "", "handover-2")
	second.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if err := c.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}

	deaths := 0
	for writes := int64(1); c.checkHandover() != nil; writes++ {
		if writes > 50 {
			t.Fatalf("not handed over by a program after 50 writes: %v", c.checkHandover())
		}
		life := c.startMortal(writes)
		c.Eventually("the hand-over is complete, or the program is killed", func() error {
			if life.IsDead() {
				return nil
			}
			return c.checkHandover()
		})
		life.Kill()
		deaths++
	}

	if deaths < 3 {
		t.Errorf("got %d killed programs, too few for this test", deaths)
	}

	if diff := cmp.Diff(before, c.sharedObjectIdentities(ns)); diff != "" {
		t.Errorf("objects and their owners (-before the update +after the rollback):\n%s", diff)
	}

	config, app := &corev1.ConfigMap{}, &appsv1.Deployment{}
	c.get(config, ns, "config")
	if diff := cmp.Diff(map[string]string{"key": "v1"}, config.Data); diff != "" {
		t.Errorf("the ConfigMap (-want +got):\n%s", diff)
	}

	c.get(app, ns, "app")
	if image := app.Spec.Template.Spec.Containers[0].Image; image != "example.com/main:v1" {
		t.Errorf("got the image %s of the Deployment", image)
	}
	c.get(instance, ns, "one")
	if instance.GetDeletionTimestamp() != nil {
		t.Error("an instance of the kind is being deleted")
	}
	if c.Find(&corev1.ConfigMap{}, ns, "added") || c.Find(&corev1.ConfigMap{}, ns, "late") || c.Find(&apiextensionsv1.CustomResourceDefinition{}, "", "saucers.rollout.example.com") {
		t.Error("an object of the update still exists")
	}
	want := []string{"ConfigMap added", "CustomResourceDefinition saucers.rollout.example.com"}
	c.Eventually("the deletions are recorded", func() error {
		return errorUnless(slices.Equal(deletions(), want), "deleted were %q, want %q", deletions(), want)
	})
	c.startController()
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("handover-1")
}

// sharedObjectIdentities returns the UIDs and owners of the objects that both revisions have.
func (c *fixture) sharedObjectIdentities(ns string) map[string]string {
	c.T.Helper()
	result := map[string]string{}
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "config"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}},
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "plates.rollout.example.com"}},
	} {
		c.get(object, object.GetNamespace(), object.GetName())
		var owners []string
		for _, owner := range object.GetOwnerReferences() {
			owners = append(owners, fmt.Sprintf("%s (controller %t)", owner.Name, *owner.Controller))
		}
		result[object.GetName()] = fmt.Sprintf("%s, deleted %t, owned by %s", object.GetUID(), object.GetDeletionTimestamp() != nil, strings.Join(owners, ", "))
	}

	return result
}

// checkHandover returns an error unless the second revision has released all its objects, and the
// first has taken over those that it contains.
func (c *fixture) checkHandover() error {
	second := &olmv1.ClusterObjectSet{}
	if err := c.Get(c.T.Context(), client.ObjectKey{Name: "handover-2"}, second); err != nil {
		return err
	}
	progressing := meta.FindStatusCondition(second.Status.Conditions, olmv1.TypeProgressing)
	return errorUnless(progressing != nil && progressing.Reason == olmv1.ReasonArchived, "the second revision is %+v", progressing)
}

// watchDeletions records which objects of the test are deleted from now on. The returned function
// returns their names, sorted.
func (c *fixture) watchDeletions(ns string) func() []string {
	c.T.Helper()
	watching, err := client.NewWithWatch(env.Start(c.T), client.Options{Scheme: c.Scheme()})
	c.Must(err)

	var mu sync.Mutex
	deleted := map[string]bool{}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.DeploymentList{}, &apiextensionsv1.CustomResourceDefinitionList{}} {
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")
		options := []client.ListOption{}
		if kind != "CustomResourceDefinition" {
			options = append(options, client.InNamespace(ns))
		}

		events, err := watching.Watch(c.T.Context(), list, options...)
		c.Must(err)

		c.T.Cleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				object, ok := event.Object.(client.Object)
				if ok && (event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil) && (object.GetNamespace() == ns || strings.HasSuffix(object.GetName(), ".rollout.example.com")) {
					mu.Lock()
					deleted[kind+" "+object.GetName()] = true
					mu.Unlock()
				}
			}
		}()
	}

	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		var names []string
		for name := range deleted {
			names = append(names, name)
		}

		slices.Sort(names)
		return names
	}
}

// startMortal starts a program that is killed after a number of writes.
func (c *fixture) startMortal(writes int64) *mortal.Process {
	c.T.Helper()
	return mortal.Start(c.T.Context(), env.Start(c.T), writes, func(ctx context.Context, connection *rest.Config) {
		_ = c.newManager(connection).Start(ctx)
	})
}
