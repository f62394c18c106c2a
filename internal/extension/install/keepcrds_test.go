package install_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
)

// A condition of an extension states, before its deletion, whether its CRDs would be deleted.
// The annotation to keep them is copied to its revisions.
func TestKeepCRDs(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("keep")
	w.createCatalog("keep", "1.0.0")
	w.CreateForTest(newExtension("keep", "keep"))
	set := w.waitForRevision("keep-1")
	if got := set.Annotations[olmv1.AnnotationCRDs]; got != greetings {
		t.Errorf("the revision records the CRDs %q, want %q", got, greetings)
	}

	w.markSucceeded(set)
	w.expectCondition("keep", olmv1.TypeDeletesCRDs, "True CRDsOwned When this extension is deleted, its CRDs are deleted, and with them every custom resource of their kinds: "+
		greetings+`. To keep them, set the annotation mainstay.dev/keep-crds: "true" first`)

	// A revision from before CRDs were recorded has them among its objects.
	set = w.waitForRevision("keep-1")
	w.PatchObject(set, func() { delete(set.Annotations, olmv1.AnnotationCRDs) })
	ext := w.getExtension("keep")
	w.PatchObject(ext, func() { ext.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"} })
	w.expectCondition("keep", olmv1.TypeDeletesCRDs, "False CRDsKept When this extension is deleted, its CRDs stay, and so do all custom resources: "+greetings)

	w.delete(w.getExtension("keep"))
	w.Eventually("the revision is deleted, and keeps its CRDs", func() error {
		set := w.waitForRevision("keep-1")
		if set.DeletionTimestamp.IsZero() || set.Annotations[olmv1.AnnotationKeepCRDs] != "true" {
			return fmt.Errorf("got the deletion at %v and the annotations %v", set.DeletionTimestamp, set.Annotations)
		}
		return nil
	})

	w.removeFinalizers("keep")
}

// laggingClient is a client whose cache has not received any revision while isLagging is set.
type laggingClient struct {
	client.Client

	isLagging *atomic.Bool
}

// List implements client.Client.
func (c laggingClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, isRevisions := list.(*olmv1.ClusterObjectSetList); isRevisions && c.isLagging.Load() {
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

// An extension that is deleted right after its revision was created, which the cache does not have yet, does not
// leave the revision: the garbage collector would delete it with the CRDs.
func TestKeepCRDsOfRevisionThatTheCacheLacks(t *testing.T) {
	var isLagging atomic.Bool
	w := newFixture(t, func(c *install.Controller) { c.Client = laggingClient{c.Client, &isLagging} })
	w.createNamespace("lag")
	w.createCatalog("lag", "1.0.0")
	ext := newExtension("lag", "lag")
	ext.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"}
	w.CreateForTest(ext)
	w.waitForRevision("lag-1")

	isLagging.Store(true)
	w.delete(w.getExtension("lag"))
	w.Eventually("the revision is deleted, and keeps its CRDs", func() error {
		set := w.waitForRevision("lag-1")
		if set.DeletionTimestamp.IsZero() || set.Annotations[olmv1.AnnotationKeepCRDs] != "true" {
			return fmt.Errorf("got the deletion at %v and the annotations %v", set.DeletionTimestamp, set.Annotations)
		}
		return nil
	})

	w.removeFinalizers("lag")
}
