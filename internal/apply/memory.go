package apply

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/apply/memory"
)

// Memory caches the last request for each object, and whether the object was ready. Applying the same manifest again
// is then skipped, if it would change nothing. That saves the API server the merge, its costliest part, in every
// reconciliation without changes. Several engines may share it, because an object's version does not depend on who
// reads it.
type Memory = memory.Memory[Probe]

// NewMemory returns a memory of a number of objects.
func NewMemory(size int) *Memory { return memory.New[Probe](size) }

// versionOf returns the version of an object that was read.
func versionOf(u *unstructured.Unstructured) memory.Object {
	return memory.Object{UID: u.GetUID(), Version: u.GetResourceVersion()}
}

// digestObjectRequest returns the digest of everything that is requested for an object, except what
// depends on the live object. An object that cannot be encoded cannot be applied either, and fails
// there.
func digestObjectRequest(object Object, rev *Revision) memory.Digest {
	return memory.DigestOf(object.Manifest.Object, object.Protection, rev.Owner.Reference.UID, rev.Owner.Labels, rev.Probes.compiledFrom())
}

// digestLiveShape returns the digest of the parts of an object that applying the wanted one depends
// on: everything except its status, other clients' metadata, and the field ownership of other
// managers.
func digestLiveShape(live, wanted *unstructured.Unstructured) memory.Digest {
	content := maps.Clone(live.Object)
	delete(content, "metadata")
	delete(content, "status")
	return memory.DigestOf(content, intersectByKey(live.GetLabels(), wanted.GetLabels()), intersectByKey(live.GetAnnotations(), wanted.GetAnnotations()),
		live.GetOwnerReferences(), live.GetFinalizers(), live.GetDeletionTimestamp(), managedFieldsOf(live, FieldManager), managedFieldsOf(live, ServingFieldManager))
}

// intersectByKey returns the entries of a map whose keys the other map has too.
func intersectByKey(all, other map[string]string) map[string]string {
	result := map[string]string{}
	for key := range other {
		if value, ok := all[key]; ok {
			result[key] = value
		}
	}
	return result
}

// managedFieldsOf returns the fields that a manager owns, in the API server's encoding.
func managedFieldsOf(live *unstructured.Unstructured, manager string) []string {
	var fields []string
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil {
			fields = append(fields, entry.Subresource, entry.FieldsV1.GetRawString())
		}
	}
	return fields
}
