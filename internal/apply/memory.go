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

// Memory remembers what was asked for an object, and what came of it.
//
// An object that still has that version was written by nobody since: nothing is to be
// done, and whether it is ready is known. One that has another version but the same
// shape was written in places that are not this program's, such as its status: applying
// the same again would change nothing, and is left out. That spares the API server the
// merge, its costliest part, in every pass that finds nothing to do.
//
// It is a cache: without it, and after a restart, everything is applied once more. It
// may be used by several goroutines and shared between engines, as an object's
// version does not depend on who reads it.
type Memory struct{ entries *lru.Cache }

type digest = [sha256.Size]byte

type memoryEntry struct {
	version      string
	asked, shape digest
	probe        Probe
}

// NewMemory makes a memory of a number of objects, about 300 bytes each.
func NewMemory(size int) *Memory {
	return &Memory{entries: lru.New(size)}
}

// recall returns the probe of the object if nobody wrote it since the same was asked for.
func (m *Memory) recall(seen Seen, asked digest) (Probe, bool) {
	entry, ok := m.entry(seen.UID)
	if !ok || entry.version != seen.Version || entry.asked != asked {
		return Probe{}, false
	}
	return entry.probe, true
}

// knows reports whether applying the wanted object would change nothing.
func (m *Memory) knows(live, wanted *unstructured.Unstructured, asked digest) bool {
	entry, ok := m.entry(live.GetUID())
	return ok && entry.asked == asked && (entry.version == live.GetResourceVersion() || entry.shape == shapeOf(live, wanted))
}

// remember notes the object that came of applying the wanted one.
func (m *Memory) remember(after, wanted *unstructured.Unstructured, asked digest, probe Probe) {
	if m != nil && after.GetUID() != "" {
		m.entries.Add(after.GetUID(), memoryEntry{
			version: after.GetResourceVersion(), asked: asked, shape: shapeOf(after, wanted), probe: probe,
		})
	}
}

func (m *Memory) entry(uid types.UID) (memoryEntry, bool) {
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

// digestOf returns the digest of all that is asked for an object, but for what follows
// from the live one. What cannot be encoded cannot be applied either, and is reported
// there.
func digestOf(object Object, rev *Revision) digest {
	return sum(object.Manifest.Object, object.Protection, rev.Owner.Reference.UID, rev.Owner.Labels, rev.Probes.specs())
}

// shapeOf returns the digest of all of an object that applying the wanted one depends on:
// everything but its status, what others have in its metadata, and which fields others
// own.
func shapeOf(live, wanted *unstructured.Unstructured) digest {
	content := maps.Clone(live.Object)
	delete(content, "metadata")
	delete(content, "status")
	return sum(content, among(live.GetLabels(), wanted.GetLabels()), among(live.GetAnnotations(), wanted.GetAnnotations()),
		live.GetOwnerReferences(), live.GetFinalizers(), live.GetDeletionTimestamp(), fieldsOf(live, FieldManager), fieldsOf(live, ServingFieldManager))
}

// among returns the entries of the map whose keys the other has too.
func among(all, other map[string]string) map[string]string {
	result := map[string]string{}
	for key := range other {
		if value, ok := all[key]; ok {
			result[key] = value
		}
	}
	return result
}

// fieldsOf are the fields that a manager owns, as the API server writes them.
func fieldsOf(live *unstructured.Unstructured, manager string) []string {
	var fields []string
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil {
			fields = append(fields, entry.Subresource, entry.FieldsV1.GetRawString())
		}
	}
	return fields
}

func sum(values ...any) digest {
	hash := sha256.New()
	encoder := json.NewEncoder(hash) // writes keys sorted, and a newline after each value
	for _, value := range values {
		_ = encoder.Encode(value)
	}
	return digest(hash.Sum(nil))
}
