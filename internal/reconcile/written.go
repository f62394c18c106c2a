package reconcile

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WrittenVersions has the resource versions of the objects whose last write may not be in the cache yet. A pass over an
// outdated object would repeat what the last pass did, and end with a conflict. The zero value is ready to use.
type WrittenVersions struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]string
}

// Add stores the version of an object that was written.
func (w *WrittenVersions) Add(object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]string{}
	}
	w.versions[client.ObjectKeyFromObject(object)] = object.GetResourceVersion()
}

// Remove removes an object that does not exist.
func (w *WrittenVersions) Remove(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
}

// cacheRetryInterval is the time between two passes over an object whose last write is not in the cache. The event of the
// write triggers a pass sooner.
const cacheRetryInterval = time.Second

// ErrOutdatedCache is the error of a pass that waits for a write in the cache.
var ErrOutdatedCache = errors.New("waiting for the cache")

// CheckOutdated returns an error that wraps ErrOutdatedCache if an object that was read from the cache is older than its last
// write. The event of the write triggers the next pass. Once the cache has the write, its version is removed.
func (w *WrittenVersions) CheckOutdated(object client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.versions[client.ObjectKeyFromObject(object)]
	if !ok {
		return nil
	}

	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
	if err == nil && order < 0 {
		return Wait("", cacheRetryInterval, ErrOutdatedCache)
	}

	delete(w.versions, client.ObjectKeyFromObject(object))
	return nil
}
