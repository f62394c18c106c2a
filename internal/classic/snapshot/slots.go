package snapshot

import (
	"context"
	"sync"
)

// readSlots limit how many catalogs are read concurrently: in total, and of each namespace.
type readSlots struct {
	total chan struct{}

	mu         sync.Mutex
	namespaces map[string]*namespaceSlots
}

// namespaceSlots are the slots of one namespace.
type namespaceSlots struct {
	slots chan struct{}
	// users are the reads that have a slot or wait for one.
	users int
}

func newReadSlots() *readSlots {
	return &readSlots{total: make(chan struct{}, maxConcurrentReads), namespaces: map[string]*namespaceSlots{}}
}

// acquire waits for a slot to read a catalog of a namespace. The returned function releases it.
func (r *readSlots) acquire(ctx context.Context, namespace string) (release func(), err error) {
	own := r.joinNamespace(namespace)
	select {
	case own.slots <- struct{}{}:
	case <-ctx.Done():
		r.leaveNamespace(namespace)
		return nil, ctx.Err()
	}

	select {
	case r.total <- struct{}{}:
		return func() { <-r.total; <-own.slots; r.leaveNamespace(namespace) }, nil
	case <-ctx.Done():
		<-own.slots
		r.leaveNamespace(namespace)
		return nil, ctx.Err()
	}
}

// joinNamespace returns the slots of a namespace, which are created on first use.
func (r *readSlots) joinNamespace(namespace string) *namespaceSlots {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.namespaces[namespace]
	if n == nil {
		n = &namespaceSlots{slots: make(chan struct{}, maxConcurrentReadsPerNamespace)}
		r.namespaces[namespace] = n
	}
	n.users++
	return n
}

// leaveNamespace removes the slots of a namespace that is no longer used.
func (r *readSlots) leaveNamespace(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.namespaces[namespace]
	if n.users--; n.users == 0 {
		delete(r.namespaces, namespace)
	}
}
