package install_test

import (
	"fmt"
	"testing"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// A condition of an extension states, before its deletion, whether its CRDs would be deleted.
// The annotation to keep them is copied to its revisions.
func TestKeepCRDs(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("keep")
	w.createCatalog("keep", "1.0.0")
	w.create(newExtension("keep", "keep"))
	set := w.waitForRevision("keep-1")
	if got := set.Annotations[olmv1.AnnotationCRDs]; got != greetings {
		t.Errorf("the revision records the CRDs %q, want %q", got, greetings)
	}

	w.markSucceeded(set)
	w.expectCondition("keep", olmv1.TypeDeletesCRDs, "True CRDsOwned When this extension is deleted, its CRDs are deleted, and with them every custom resource of their kinds: "+
		greetings+`. To keep them, set the annotation mainstay.dev/keep-crds: "true" first`)

	// A revision from before CRDs were recorded has them among its objects.
	set = w.waitForRevision("keep-1")
	w.patch(set, func() { delete(set.Annotations, olmv1.AnnotationCRDs) })
	ext := w.getExtension("keep")
	w.patch(ext, func() { ext.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"} })
	w.expectCondition("keep", olmv1.TypeDeletesCRDs, "False CRDsKept When this extension is deleted, its CRDs stay, and so do all custom resources: "+greetings)

	w.delete(w.getExtension("keep"))
	w.Eventually("the revision is deleted, and keeps its CRDs", func() error {
		set := w.waitForRevision("keep-1")
		if set.DeletionTimestamp.IsZero() || set.Annotations[olmv1.AnnotationKeepCRDs] != "true" {
			return fmt.Errorf("it is deleted at %v, with the annotations %v", set.DeletionTimestamp, set.Annotations)
		}
		return nil
	})

	w.removeFinalizers("keep")
}
