package worker

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/release"
)

type digest = [sha256.Size]byte

// appliedCache remembers the result of the last write of each object.
//
// An object with a known resource version is unchanged and is not even read. An object with
// another version but the same content was changed only in fields that the release does not set,
// such as its status. The result of applying the manifest, with the defaults of the API server,
// is then known, and nothing is written. After a restart the cache is empty, and the API server
// is asked again.
type appliedCache struct {
	mu      sync.Mutex
	entries map[release.Key]appliedEntry
}

type appliedEntry struct {
	uid     types.UID
	version string
	// desired is the digest of the desired object, content that of the object as it was then.
	desired, content digest
	// healthy is true if the object was found healthy afterwards.
	healthy bool
}

func newAppliedCache() *appliedCache { return &appliedCache{entries: map[release.Key]appliedEntry{}} }

// isUpToDate reports whether an object has a known version with the desired content, and was
// healthy if that is required.
func (m *appliedCache) isUpToDate(key release.Key, seen objectVersion, desiredDigest digest, mustBeHealthy bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	return ok && e.uid == seen.uid && e.version == seen.version && e.desired == desiredDigest && (e.healthy || !mustBeHealthy)
}

// isKnownNoOp reports whether writing the desired object is known to change nothing.
func (m *appliedCache) isKnownNoOp(key release.Key, live *unstructured.Unstructured, desiredDigest digest) bool {
	m.mu.Lock()
	e, ok := m.entries[key]
	m.mu.Unlock()
	return ok && e.uid == live.GetUID() && e.desired == desiredDigest && (e.version == live.GetResourceVersion() || e.content == digestContent(live))
}

// store records the state of an object after it was applied.
func (m *appliedCache) store(key release.Key, live *unstructured.Unstructured, desiredDigest digest, healthy bool) {
	e := appliedEntry{uid: live.GetUID(), version: live.GetResourceVersion(), desired: desiredDigest, content: digestContent(live), healthy: healthy}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = e
}

// retainItems removes all entries but those of the given items.
func (m *appliedCache) retainItems(items []item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[release.Key]appliedEntry, len(items))
	for i := range items {
		if e, ok := m.entries[items[i].key]; ok {
			kept[items[i].key] = e
		}
	}

	m.entries = kept
}

// digestContent returns the digest of everything in an object that a manifest can set.
func digestContent(u *unstructured.Unstructured) digest {
	hash := sha256.New()
	encoder := json.NewEncoder(hash) // writes keys sorted, and a newline after each value
	content := make(map[string]any, len(u.Object))
	for field, value := range u.Object {
		if field != "metadata" && field != "status" {
			content[field] = value
		}
	}

	for _, value := range []any{content, u.GetLabels(), u.GetAnnotations(), u.GetOwnerReferences(), u.GetFinalizers(), u.GetDeletionTimestamp()} {
		_ = encoder.Encode(value) // It was decoded from JSON.
	}

	return digest(hash.Sum(nil))
}
