package apply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestStuckDeletionIsRetried has a CRD whose deletion the API server no longer retries.
// This is simulated by a finalizer that keeps the CRD when its instances
// are deleted, and by the condition. The retry after an annotation is code of the API server.
func TestStuckDeletionIsRetried(t *testing.T) {
	b := newFixture(t)
	manifest := strings.ReplaceAll(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NS.example.com, finalizers: [example.com/hold]}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, "NS", b.ns)

	b.applyObject(1, nil, manifest)
	owner := b.newOwner(1)
	engine := newEngineForStore(b, nil)
	now := time.Now().Truncate(time.Second)
	engine.phases.(*phaseEngine).objects.(*objectEngine).now = func() time.Time { return now }
	remove := func() *unstructured.Unstructured {
		t.Helper()
		removal := engine.Remove(t.Context(), &Removal{Owner: &owner, Phases: []Phase{{Name: "crds", Objects: []Object{{Manifest: b.parseManifest(manifest)}}}}})
		if removal.Err() != nil || removal.Waiting() == "" {
			t.Fatalf("the removal does not wait: %v", removal.Err())
		}
		return b.readObject(manifest)
	}

	nudged := func(live *unstructured.Unstructured) string {
		return live.GetAnnotations()[annotationDeletionRetriggered]
	}

	remove()
	env.Eventually(t, "the API server deletes the instances", func() error {
		if finalizers := remove().GetFinalizers(); len(finalizers) != 1 {
			return fmt.Errorf("got finalizers %q, want one", finalizers)
		}
		return nil
	})

	// Until here the API server may really have failed, and may have been triggered.
	now = now.Add(time.Hour)
	before := nudged(b.readObject(manifest))
	if live := remove(); nudged(live) != before {
		t.Errorf("nudged at %s though the API server has done its work", nudged(live))
	}

	b.setTerminating(manifest, "InstanceDeletionFailed")
	if live := remove(); nudged(live) != now.UTC().Format(time.RFC3339) {
		t.Errorf("nudged at %q, now is %s", nudged(live), now)
	}

	before = nudged(b.readObject(manifest))
	now = now.Add(deletionRetriggerInterval - time.Second)
	if live := remove(); nudged(live) != before {
		t.Errorf("nudged again at %s, a second too early", nudged(live))
	}

	now = now.Add(time.Second)
	if live := remove(); nudged(live) != now.UTC().Format(time.RFC3339) {
		t.Errorf("nudged at %q, now is %s", nudged(live), now)
	}

	b.editObject(manifest, func(live *unstructured.Unstructured) { live.SetFinalizers(nil) })
}

// setTerminating sets the condition Terminating of a CRD that is being deleted.
func (b *fixture) setTerminating(manifest, reason string) {
	b.t.Helper()
	b.editObject(manifest, func(live *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, item := range conditions {
			if condition := item.(map[string]any); condition["type"] == "Terminating" {
				condition["status"], condition["reason"] = "True", reason
			}
		}
		if err := unstructured.SetNestedSlice(live.Object, conditions, "status", "conditions"); err != nil {
			b.t.Fatal(err)
		}
	}, "status")
}

// editObject changes an object that the API server may write at the same time.
func (b *fixture) editObject(manifest string, change func(*unstructured.Unstructured), subresources ...string) {
	b.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := b.readObject(manifest)
		at, err := b.locate(live.GroupVersionKind())
		if err != nil {
			return err
		}

		change(live)
		_, err = b.store.(*server).resourceClient(at, live.GetNamespace()).Update(b.t.Context(), live, metav1.UpdateOptions{}, subresources...)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
