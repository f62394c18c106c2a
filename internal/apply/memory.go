package apply

import (
	"crypto/sha256"
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Memory caches the last request for each object, and its result.
//
// An object that still has the recorded version has not been written since: nothing needs to be
// done, and its readiness is known. An object with another version but the same shape was changed
// only in fields that this program does not manage, such as its status: applying the same manifest
// would change nothing, and is skipped. That saves the API server the merge, its costliest part,
// in every reconciliation without changes.
//
// Without it, and after a restart, everything is applied once more. It is safe for concurrent use.
// Several engines may share it, because an object's version does not depend on who reads it.
type Memory struct{ entries *lru.Cache }

type digest = [sha256.Size]byte

type memoryEntry struct {
	version        string
	request, shape digest
	probe          Probe
}

// NewMemory returns a memory of a number of objects, about 300 bytes each.
func NewMemory(size int) *Memory {
	return &Memory{entries: lru.New(size)}
}

// recallProbe returns the probe of an object if it has not been written since the same request.
// Otherwise it returns false.
func (m *Memory) recallProbe(seen ObservedObject, request digest) (Probe, bool) {
	entry, ok := m.lookUpEntry(seen.UID)
	if !ok || entry.version != seen.Version || entry.request != request {
		return Probe{}, false
	}
	return entry.probe, true
}

// isUnchanged reports whether applying the wanted object would change nothing.
func (m *Memory) isUnchanged(live, wanted *unstructured.Unstructured, request digest) bool {
	entry, ok := m.lookUpEntry(live.GetUID())
	return ok && entry.request == request && (entry.version == live.GetResourceVersion() || entry.shape == digestLiveShape(live, wanted))
}

// recordResult stores the object that resulted from applying the wanted one.
func (m *Memory) recordResult(after, wanted *unstructured.Unstructured, request digest, probe Probe) {
	if m != nil && after.GetUID() != "" {
		m.entries.Add(after.GetUID(), memoryEntry{
			version: after.GetResourceVersion(), request: request, shape: digestLiveShape(after, wanted), probe: probe,
		})
	}
}

func (m *Memory) lookUpEntry(uid types.UID) (memoryEntry, bool) {
	if m == nil {
		return memoryEntry{}, false
	}

	entry, ok := m.entries.Get(uid)
	if !ok {
		return memoryEntry{}, false
	}

	result, ok := entry.(memoryEntry)
	return result, ok
}

// digestObjectRequest returns the digest of everything that is requested for an object, except what
// depends on the live object. An object that cannot be encoded cannot be applied either, and fails
// there.
func digestObjectRequest(object Object, rev *Revision) digest {
	return hashJSONValues(object.Manifest.Object, object.Protection, rev.Owner.Reference.UID, rev.Owner.Labels, rev.Probes.compiledFrom())
}

// digestLiveShape returns the digest of the parts of an object that applying the wanted one depends
// on: everything except its status, other clients' metadata, and the field ownership of other
// managers.
func digestLiveShape(live, wanted *unstructured.Unstructured) digest {
	content := maps.Clone(live.Object)
	delete(content, "metadata")
	delete(content, "status")
	return hashJSONValues(content, intersectByKey(live.GetLabels(), wanted.GetLabels()), intersectByKey(live.GetAnnotations(), wanted.GetAnnotations()),
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

func hashJSONValues(values ...any) digest {
	hash := sha256.New()
	encoder := json.NewEncoder(hash) // writes keys sorted, and a newline after each value
	for _, value := range values {
		_ = encoder.Encode(value)
	}
	return digest(hash.Sum(nil))
}
