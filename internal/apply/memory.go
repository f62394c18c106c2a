package apply

import (
	"crypto/sha256"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Memory remembers what was applied, and the version of the object that came of it.
// An object that still has this version was written by nobody since: applying the
// same again would change nothing, and is left out. That spares the API server the
// merge, its costliest part, in every pass that finds nothing to do.
//
// It is a cache: without it, and after a restart, everything is applied once more. It
// may be used by several goroutines and shared between engines, as an object's
// version does not depend on who reads it.
type Memory struct{ entries *lru.Cache }

type memoryEntry struct {
	version string
	digest  [sha256.Size]byte
}

// NewMemory makes a memory of a number of objects, about 200 bytes each.
func NewMemory(size int) *Memory {
	return &Memory{entries: lru.New(size)}
}

// knows tells whether the live object is what came of applying the wanted one.
func (m *Memory) knows(live *unstructured.Unstructured, digest [sha256.Size]byte) bool {
	if m == nil {
		return false
	}
	entry, ok := m.entries.Get(live.GetUID())
	return ok && entry == memoryEntry{version: live.GetResourceVersion(), digest: digest}
}

// remember notes the object that came of applying the wanted one.
func (m *Memory) remember(after *unstructured.Unstructured, digest [sha256.Size]byte) {
	if m != nil && after.GetUID() != types.UID("") {
		m.entries.Add(after.GetUID(), memoryEntry{version: after.GetResourceVersion(), digest: digest})
	}
}

// digestOf gives the digest of what is to be applied. What cannot be encoded cannot
// be applied either, and is reported there.
func digestOf(wanted *unstructured.Unstructured) [sha256.Size]byte {
	encoded, _ := json.Marshal(wanted.Object) // keys are sorted
	return sha256.Sum256(encoded)
}
