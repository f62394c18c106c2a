package csv

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// sharedRights is the set of ClusterServiceVersions that rely on roles or bindings that were not
// created for them. Any change of cluster-wide rights may affect them: only metadata is watched, which
// does not contain the subjects of a binding. The set is small, so that such a change does not enqueue
// every operator.
//
// The set need not be persistent: the first reconcile after a restart adds each member again. The zero
// value is ready to use.
type sharedRights struct {
	mutex sync.Mutex
	names sets.Set[types.NamespacedName]
}

// set adds or removes a ClusterServiceVersion. It must be added before its rights are read. Otherwise
// a change between reading and adding would be missed.
func (b *sharedRights) set(name types.NamespacedName, is bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !is {
		b.names.Delete(name)
		return
	}
	if b.names == nil {
		b.names = sets.Set[types.NamespacedName]{}
	}

	b.names.Insert(name)
}

// has reports whether a ClusterServiceVersion is in the set.
func (b *sharedRights) has(name types.NamespacedName) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.names.Has(name)
}
