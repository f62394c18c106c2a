package pull

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// maxRetrievalsPerHost is how many retrievals use one registry at the same time. Further
// retrievals from that registry wait. There is no limit over all registries, because a few that do
// not answer would exhaust it. A retrieval that waits for an answer costs one goroutine, and each
// object has at most one for each purpose. maxTransfers limits the use of memory.
const maxRetrievalsPerHost = 4

// Retrieval is work that waits for a registry on behalf of an object.
type Retrieval[T any] struct {
	// Name is the name of the object, which is cluster-scoped. It is enqueued when the
	// retrieval has ended.
	Name string
	// Purpose distinguishes retrievals of one object that may run in parallel.
	Purpose string
	// Request identifies what is retrieved, see Take.
	Request string
	// Reference is the image. Its registry determines the slot.
	Reference string
	// Run does the work. It must return soon after its context is done.
	Run func(ctx context.Context) (T, error)
}

// ErrRetrieving means that a reconciliation ended because a retrieval is running. The object is
// enqueued when it has ended.
var ErrRetrieving = errors.New("the image is being retrieved from its registry")

// State is the state of a retrieval.
type State int

// States of a retrieval.
const (
	// None means that no retrieval of this request was started.
	None State = iota
	// Running means that it is running, or is about to end after it was canceled.
	Running
	// Ended means that it has ended, and its result was taken.
	Ended
)

// Retrievals run work that waits for registries, so that no worker of a controller does.
// A reconciler calls Take; when that finds None it calls Start and returns, and the object
// is enqueued by Source when the retrieval has ended. Nothing is persisted: after a restart
// the reconcilers start again what they need.
// The zero value is ready for use, and safe for concurrent use.
type Retrievals[T any] struct {
	work sync.WaitGroup

	mu sync.Mutex
	// entries are the running retrievals, and those whose result was not taken yet.
	entries map[retrievalKey]*retrieval[T]
	hosts   map[string]*hostSlots
	enqueue []func(name string)
	closed  bool
}

type retrievalKey struct{ name, purpose string }

// retrieval is a started retrieval. The mutex of Retrievals guards its fields.
type retrieval[T any] struct {
	request  string
	cancel   context.CancelFunc
	canceled bool
	ended    bool
	result   T
	err      error
}

// hostSlots are the slots of one registry.
type hostSlots struct {
	slots chan struct{}
	// users are the retrievals that have a slot or wait for one.
	users int
}

// Take returns the result of a retrieval that has ended. It returns a result once. A retrieval of
// another request is canceled or dropped: it is Running until it has ended, and then None.
func (r *Retrievals[T]) Take(name, purpose, request string) (result T, state State, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := retrievalKey{name, purpose}
	found := r.entries[key]
	if found == nil {
		return result, None, nil
	}

	isCurrent := found.request == request && !found.canceled
	switch {
	case !found.ended && isCurrent:
		return result, Running, nil
	case !found.ended:
		found.stop()
		return result, Running, nil
	}

	delete(r.entries, key)
	if !isCurrent {
		return result, None, nil
	}

	return found.result, Ended, found.err
}

// Start starts a retrieval, unless one with the same name and purpose exists. The retrieval ends
// with the context. That of a reconciliation lasts as long as its manager.
func (r *Retrievals[T]) Start(ctx context.Context, wanted Retrieval[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := retrievalKey{wanted.Name, wanted.Purpose}
	if r.closed || r.entries[key] != nil {
		return
	}
	if r.entries == nil {
		r.entries = map[retrievalKey]*retrieval[T]{}
	}

	ctx, cancel := context.WithCancel(ctx)
	started := &retrieval[T]{request: wanted.Request, cancel: cancel}
	r.entries[key] = started
	r.work.Go(func() {
		defer cancel()
		result, err := r.runInSlot(ctx, wanted)
		r.recordResult(key, started, result, err)
	})
}

// recordResult records the result and enqueues the object.
func (r *Retrievals[T]) recordResult(key retrievalKey, ended *retrieval[T], result T, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended.ended, ended.result, ended.err = true, result, err
	if ended.canceled {
		delete(r.entries, key)
	}

	for _, f := range r.enqueue {
		f(key.name)
	}
}

// runInSlot waits for a slot of the registry and does the work. It turns a panic into an error.
func (r *Retrievals[T]) runInSlot(ctx context.Context, wanted Retrieval[T]) (result T, err error) {
	release, err := r.acquireSlot(ctx, image.RegistryOf(wanted.Reference))
	if err != nil {
		return result, err
	}
	defer release()
	defer func() {
		if p := recover(); p != nil {
			ctrl.LoggerFrom(ctx).Info("A retrieval panicked", "image", wanted.Reference, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("retrieving image %s: panic: %v", wanted.Reference, p)
		}
	}()

	return wanted.Run(ctx)
}

// acquireSlot waits for a slot of a registry. The returned function releases it.
func (r *Retrievals[T]) acquireSlot(ctx context.Context, host string) (release func(), err error) {
	r.mu.Lock()
	if r.hosts == nil {
		r.hosts = map[string]*hostSlots{}
	}

	h := r.hosts[host]
	if h == nil {
		h = &hostSlots{slots: make(chan struct{}, maxRetrievalsPerHost)}
		r.hosts[host] = h
	}

	h.users++
	r.mu.Unlock()

	leave := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(r.hosts, host)
		}
	}

	select {
	case h.slots <- struct{}{}:
		return func() {
			<-h.slots
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// stop cancels a retrieval. Its result is dropped. The mutex of Retrievals must be held.
func (r *retrieval[T]) stop() {
	r.canceled = true
	r.cancel()
}

// Cancel cancels the retrievals of an object for some purposes, or all of them if none is given.
// It drops their results, and returns whether none is left. A retrieval that is still running
// enqueues the object when it has ended.
func (r *Retrievals[T]) Cancel(name string, purposes ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isGone := true
	for key, found := range r.entries {
		switch {
		case key.name != name || (len(purposes) > 0 && !slices.Contains(purposes, key.purpose)):
		case found.ended:
			delete(r.entries, key)
		default:
			found.stop()
			isGone = false
		}
	}

	return isGone
}

// IsPending reports whether a retrieval of an object is running, or its result was not taken yet.
func (r *Retrievals[T]) IsPending(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.entries {
		if key.name == name {
			return true
		}
	}
	return false
}

// OnEnd adds a function that is called with the name of an object when one of its
// retrievals has ended. It must neither block nor call the Retrievals.
func (r *Retrievals[T]) OnEnd(f func(name string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue = append(r.enqueue, f)
}

// Source returns the source of events that enqueues an object when one of its retrievals
// has ended.
func (r *Retrievals[T]) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		r.OnEnd(func(name string) {
			queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		})
		return nil
	})
}

// KeepBackoff wraps the rate limiter of a controller whose reconciler uses Retrievals. The
// controller forgets the failures of an object after each reconciliation without an error. A
// reconciliation that only started a retrieval has not succeeded yet, so its failures still count.
func (r *Retrievals[T]) KeepBackoff(inner workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimiter[ctrl.Request] {
	return backoff{TypedRateLimiter: inner, isPending: r.IsPending}
}

type backoff struct {
	workqueue.TypedRateLimiter[ctrl.Request]
	isPending func(name string) bool
}

// Forget resets the backoff of an object unless one of its retrievals is pending.
func (b backoff) Forget(req ctrl.Request) {
	if !b.isPending(req.Name) {
		b.TypedRateLimiter.Forget(req)
	}
}

// Runnable returns a runnable that ends after all retrievals have ended. Their contexts end with
// that of the manager.
func (r *Retrievals[T]) Runnable() manager.Runnable {
	return drainRunnable(func(ctx context.Context) error {
		<-ctx.Done()
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.work.Wait()

		return nil
	})
}

// drainRunnable is a Runnable that runs on every replica.
type drainRunnable manager.RunnableFunc

// Start implements manager.Runnable.
func (d drainRunnable) Start(ctx context.Context) error { return d(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (drainRunnable) NeedLeaderElection() bool { return false }
