package apply

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// annotationDeletionRetriggered is the annotation of a CRD that is being deleted with the
	// time, in RFC 3339, when its deletion was last retriggered.
	annotationDeletionRetriggered = "mainstay.dev/removal-nudged"
	// deletionRetriggerInterval is how long the API server has to continue the deletion by itself.
	deletionRetriggerInterval = 2 * time.Second
)

// retriggerCRDDeletion makes the API server continue the deletion of a CRD that has stalled.
//
// The API server deletes the instances first. That fails if the kind was changed a moment ago and
// its storage is being rebuilt. One outcome of its next attempt is lost: a conflict while it
// writes the condition ends the attempt, and the event that should trigger the next one is
// filtered out if only that condition changed. Nothing happens then until its next resync, minutes
// later. A changed annotation triggers it.
//
// A failed patch is ignored: the next reconciliation retries it.
func (o *objectEngine) retriggerCRDDeletion(ctx context.Context, at location, key Key, live *unstructured.Unstructured) {
	if live.GroupVersionKind().GroupKind() != crdKind || !hasFailedDeletion(live) {
		return
	}

	now := o.now()
	last, err := time.Parse(time.RFC3339, live.GetAnnotations()[annotationDeletionRetriggered])
	if since := now.Sub(last); err == nil && since >= 0 && since < deletionRetriggerInterval {
		return
	}

	_ = o.store.setAnnotation(ctx, at, key, live.GetUID(), annotationDeletionRetriggered, now.UTC().Format(time.RFC3339))
}

// hasFailedDeletion reports whether the API server could not delete the instances.
func hasFailedDeletion(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Terminating" {
			return condition["status"] == string(metav1.ConditionTrue) && condition["reason"] == "InstanceDeletionFailed"
		}
	}

	return false
}
