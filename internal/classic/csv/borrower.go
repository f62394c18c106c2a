package csv

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// borrowers are the ClusterServiceVersions whose rights do not all come from roles and bindings that
// were made for them. A change of anybody's rights in the whole cluster may take theirs: who a binding
// is for cannot be told from its metadata, which is all that is watched. There are few of them, so that
// such a change does not have every operator looked at.
//
// Nothing is lost with the process: the first pass of the next one finds them out. The zero value is
// ready.
type borrowers struct {
	mutex sync.Mutex
	names sets.Set[types.NamespacedName]
}

// set reports whether a ClusterServiceVersion is one. That it is must be said before the rights are read,
// or a change between the two goes unnoticed.
func (b *borrowers) set(name types.NamespacedName, is bool) {
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

// has reports whether a ClusterServiceVersion is one.
func (b *borrowers) has(name types.NamespacedName) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.names.Has(name)
}
