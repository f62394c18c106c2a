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

// memory is what came of what was asked for each object.
//
// An object that still has that version was written by nobody since, and is not even read.
// One that has another version but the same shape was written where the release has no
// say, such as its status: what the API server makes of the manifest is known then, with
// its defaults, and nothing is written. Without the memory, and after a restart, the API
// server is asked once more.
type memory struct {
	mu      sync.Mutex
	entries map[release.Key]entry
}

type entry struct {
	uid     types.UID
	version string
	// asked is what was asked for, shape what the object was then.
	asked, shape digest
	// healthy says that the object was looked at after that, and found well.
	healthy bool
}

func newMemory() *memory { return &memory{entries: map[release.Key]entry{}} }

// recall reports whether the object is as asked for, and was well if that matters.
func (m *memory) recall(key release.Key, seen seen, asked digest, mustBeHealthy bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	return ok && e.uid == seen.uid && e.version == seen.version && e.asked == asked && (e.healthy || !mustBeHealthy)
}

// knows reports whether writing what is asked for would change nothing.
func (m *memory) knows(key release.Key, live *unstructured.Unstructured, asked digest) bool {
	m.mu.Lock()
	e, ok := m.entries[key]
	m.mu.Unlock()
	return ok && e.uid == live.GetUID() && e.asked == asked && (e.version == live.GetResourceVersion() || e.shape == shapeOf(live))
}

func (m *memory) remember(key release.Key, live *unstructured.Unstructured, asked digest, healthy bool) {
	e := entry{uid: live.GetUID(), version: live.GetResourceVersion(), asked: asked, shape: shapeOf(live), healthy: healthy}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = e
}

// keep forgets all objects but those of a job.
func (m *memory) keep(items []item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[release.Key]entry, len(items))
	for i := range items {
		if e, ok := m.entries[items[i].key]; ok {
			kept[items[i].key] = e
		}
	}

	m.entries = kept
}

// shapeOf returns the digest of all that a manifest can have a say in.
func shapeOf(u *unstructured.Unstructured) digest {
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
