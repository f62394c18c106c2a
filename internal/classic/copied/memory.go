package copied

import (
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// cacheSyncTimeout is how long a written copy may take to appear in the cache.
const cacheSyncTimeout = time.Minute

// memory has a record of each copy that was written or read, so that it need not be read again. It is not persistent.
type memory struct {
	mu     sync.Mutex
	copies map[types.NamespacedName]record
}

// contentHash is the hash of a part of a copy. Equal hashes have one string in memory: thousands of copies of an operator
// have the same content. The zero value differs from every hash.
type contentHash = unique.Handle[string]

func newContentHash(content any) (contentHash, error) {
	text, err := csvinfo.Hash(content)
	return unique.Make(text), err
}

// record describes one resource version of a copy.
type record struct {
	uid     types.UID
	version string
	// objectHash and statusHash are the hashes of its content.
	objectHash, statusHash contentHash
	// at is the time of the write or read.
	at time.Time
}

func newMemory() *memory { return &memory{copies: map[types.NamespacedName]record{}} }

// add stores and returns a record of an object with the given hashes.
func (m *memory) add(object client.Object, rest, state contentHash, now time.Time) record {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := record{uid: object.GetUID(), version: object.GetResourceVersion(), objectHash: rest, statusHash: state, at: now}
	m.copies[client.ObjectKeyFromObject(object)] = r
	return r
}

// addObject stores and returns a record of an object that was read from the API server.
func (m *memory) addObject(object *v1alpha1.ClusterServiceVersion, now time.Time) (record, error) {
	rest, err := hashWithoutStatus(object.Name, object.Labels, object.Annotations, &object.Spec)
	if err != nil {
		return record{}, err
	}

	state, err := newContentHash(object.Status)
	if err != nil {
		return record{}, err
	}

	return m.add(object, rest, state, now), nil
}

// forget removes the record of a copy if it has the given UID. An empty UID matches any.
func (m *memory) forget(key types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == "" || m.copies[key].uid == uid {
		delete(m.copies, key)
	}
}

// lookUp returns the record of a copy. version is its cached version, or empty when it is not in the cache. ok is false
// when the record is not current and the copy must be read.
func (m *memory) lookUp(key types.NamespacedName, uid types.UID, version string, now time.Time) (r record, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok = m.copies[key]
	switch {
	case !ok:
		return r, false
	case version == "":
		return r, now.Sub(r.at) < cacheSyncTimeout
	case r.uid != uid:
		return r, false
	case r.version == version:
		return r, true
	}

	// The written version may be newer than the cached one.
	order, err := resourceversion.CompareResourceVersion(r.version, version)
	return r, err == nil && order > 0
}
