// Package memory caches what was applied to objects, and the results, so that an object that did not change is not
// written again. It is only a cache: after a restart everything is applied once more.
package memory

import (
	"crypto/sha256"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Digest is a digest of objects and values.
type Digest = [sha256.Size]byte

// DigestOf returns the digest of values that can be encoded as JSON.
func DigestOf(values ...any) Digest {
	hash := sha256.New()
	encoder := json.NewEncoder(hash) // writes keys sorted, and a newline after each value
	for _, value := range values {
		_ = encoder.Encode(value)
	}
	return Digest(hash.Sum(nil))
}

// Memory caches the last request for each object, and its result.
//
// An object that still has the recorded version has not been written since: nothing needs to be done, and the result
// is known. An object with another version but the same content was changed only in fields that the program does not
// manage, such as its status: the same request would change nothing, and is skipped.
//
// A nil Memory has no entries. It is safe for concurrent use.
type Memory[R any] struct{ entries *lru.Cache }

type entry[R any] struct {
	version          string
	request, content Digest
	result           R
}

// Object identifies a version of an object.
type Object struct {
	UID     types.UID
	Version string
}

// New returns a memory of a number of objects, about 300 bytes each. The objects that were not used for the longest
// time are forgotten.
func New[R any](size int) *Memory[R] { return &Memory[R]{entries: lru.New(size)} }

// Recall returns the result of a request if the object has not been written since. Otherwise it returns false.
func (m *Memory[R]) Recall(object Object, request Digest) (R, bool) {
	known, ok := m.lookUpEntry(object.UID)
	if !ok || known.version != object.Version || known.request != request {
		var none R
		return none, false
	}
	return known.result, true
}

// IsUnchanged reports whether the same request would not change the object. It calls digestContent, which returns the
// digest of what the request depends on, only if the version of the object is new.
func (m *Memory[R]) IsUnchanged(object Object, request Digest, digestContent func() Digest) bool {
	known, ok := m.lookUpEntry(object.UID)
	return ok && known.request == request && (known.version == object.Version || known.content == digestContent())
}

// Record stores the result of a request, and the object with the content that it then had. An object without a UID is
// not stored.
func (m *Memory[R]) Record(object Object, request, content Digest, result R) {
	if m != nil && object.UID != "" {
		m.entries.Add(object.UID, entry[R]{version: object.Version, request: request, content: content, result: result})
	}
}

func (m *Memory[R]) lookUpEntry(uid types.UID) (entry[R], bool) {
	if m == nil {
		return entry[R]{}, false
	}

	found, ok := m.entries.Get(uid)
	if !ok {
		return entry[R]{}, false
	}
	return found.(entry[R]), true
}
