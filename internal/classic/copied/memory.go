package copied

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// trusted is how long a copy that was written may take to come back by the watch.
const trusted = time.Minute

// memory remembers what the copies are that were written or read, so that they need not be read
// again. It is lost when the program ends.
type memory struct {
	mu     sync.Mutex
	copies map[types.NamespacedName]record
}

// record is one version of a copy.
type record struct {
	uid     types.UID
	version string
	// rest and state are the hashes of what it is.
	rest, state string
	// at is when it was written or read.
	at time.Time
}

func newMemory() *memory { return &memory{copies: map[types.NamespacedName]record{}} }

// note remembers an object with the hashes of what it is.
func (m *memory) note(object *v1alpha1.ClusterServiceVersion, rest, state string, now time.Time) record {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := record{uid: object.UID, version: object.ResourceVersion, rest: rest, state: state, at: now}
	m.copies[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = r
	return r
}

// read remembers an object that was read.
func (m *memory) read(object *v1alpha1.ClusterServiceVersion, now time.Time) (record, error) {
	rest, err := hashOfRest(object.Name, object.Labels, object.Annotations, &object.Spec)
	if err != nil {
		return record{}, err
	}

	state, err := csvinfo.Hash(object.Status)
	if err != nil {
		return record{}, err
	}

	return m.note(object, rest, state, now), nil
}

// forget forgets a copy: one with a UID, or, when that is empty, whichever it is.
func (m *memory) forget(key types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == "" || m.copies[key].uid == uid {
		delete(m.copies, key)
	}
}

// of returns what is known of a copy of which the watch has shown a version, empty for none. ok is false
// when that is not enough, and the copy must be read.
func (m *memory) of(key types.NamespacedName, uid types.UID, version string, now time.Time) (r record, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok = m.copies[key]
	switch {
	case !ok:
		return r, false
	case version == "":
		return r, now.Sub(r.at) < trusted
	case r.uid != uid:
		return r, false
	case r.version == version:
		return r, true
	}

	// What was written may be newer than what the watch has shown so far.
	order, err := resourceversion.CompareResourceVersion(r.version, version)
	return r, err == nil && order > 0
}
