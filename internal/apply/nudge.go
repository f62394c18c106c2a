package apply

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// annotationNudged, on a CustomResourceDefinition that is being deleted, is when the
	// API server was last made to look at it again, in RFC 3339.
	annotationNudged = "mainstay.dev/removal-nudged"
	// nudgePause is how long the API server has to go on by itself before.
	nudgePause = 2 * time.Second
)

// nudge makes the API server look again at a CustomResourceDefinition whose deletion it
// has given up for now.
//
// It deletes the instances first, and fails when the kind was changed a moment ago and
// its storage is being made anew. Of its next attempt one outcome is lost: a conflict
// while writing the condition ends it, and the change that it expects to be woken by is
// filtered out if it is one of that condition alone. Nothing happens then before its
// next resync, minutes later. A changed annotation wakes it.
//
// That it could not be written is of no consequence here: it is tried again with the next
// look.
func (o *objects) nudge(ctx context.Context, at location, key Key, live *unstructured.Unstructured) {
	if live.GroupVersionKind().GroupKind() != crdKind || !hasFailedToEnd(live) {
		return
	}

	now := o.now()
	last, err := time.Parse(time.RFC3339, live.GetAnnotations()[annotationNudged])
	if since := now.Sub(last); err == nil && since >= 0 && since < nudgePause {
		return
	}

	_ = o.store.annotate(ctx, at, key, live.GetUID(), annotationNudged, now.UTC().Format(time.RFC3339))
}

// hasFailedToEnd reports whether the API server could not delete the instances.
func hasFailedToEnd(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Terminating" {
			return condition["status"] == string(metav1.ConditionTrue) && condition["reason"] == "InstanceDeletionFailed"
		}
	}

	return false
}
