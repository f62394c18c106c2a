package updates

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Options configure a [Watcher].
type Options struct {
	// Program is the version of this program, which update services are told.
	Program string
	// PromQL evaluates rules of that type. Nil: they cannot be evaluated. Use a [Cache].
	PromQL Querier
	// Log is told of update services that fail.
	Log logr.Logger
	// Clock and Period are for tests. Nil and zero: real time, and between two and four
	// minutes.
	Clock  clock.WithTicker
	Period time.Duration
}

// Watcher keeps what is known of a cluster's updates up to date. It is a Runnable of a
// manager, on the leader. Its methods may be called at any time and do not wait.
type Watcher struct {
	updater *updater
	clock   clock.WithTicker
	set     chan struct{} // has an element when the query changed
	changed chan struct{} // has an element when the result changed

	mu     sync.Mutex
	query  Query
	known  []configv1.ConditionalUpdate
	isSet  bool
	result Result
	// retrieved is when the update service answered last.
	retrieved time.Time
	stop      context.CancelFunc // ends what is being asked
}

// NewWatcher makes a watcher, which does nothing until it is started and told what to ask.
func NewWatcher(o Options) *Watcher {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Watcher{
		updater: newUpdater(o), clock: o.Clock,
		set: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// NeedLeaderElection is true: one replica asks.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Set tells what the cluster is and wants to know. Conditions of the updates known from its
// status keep the times of their transitions. Setting the same query again costs nothing,
// so that it can be done whenever the ClusterVersion is looked at.
func (w *Watcher) Set(q Query, known []configv1.ConditionalUpdate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isSet && w.query.equal(q) {
		return
	}
	if w.stop != nil && w.query.key() != q.key() {
		w.stop() // Nobody wants to know any more.
	}

	w.query, w.isSet = q, true
	if w.known == nil {
		w.known = known
	}

	nudge(w.set)
}

// Result is what is known now. It must not be changed.
func (w *Watcher) Result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result
}

// Retrieved is when the update service answered last; the zero time when it never did.
func (w *Watcher) Retrieved() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retrieved
}

// Changed returns an element when the result has changed since the last one was taken.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Start asks until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	for {
		wait, ok := w.look(ctx)
		var due <-chan time.Time
		if ok {
			due = w.clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.set:
		case <-due:
		}
	}
}

// look asks what is due, and gives when something will be. It gives false when there is
// nothing to ask.
func (w *Watcher) look(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	q, known, isSet := w.query, w.known, w.isSet
	w.stop = cancel
	w.mu.Unlock()
	if !isSet {
		return 0, false
	}

	result, wait := w.updater.sync(ctx, q, known)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = nil
	w.retrieved = w.updater.lastSuccess
	if ctx.Err() != nil {
		return 0, true // The query changed while it was asked.
	}
	if !result.equal(w.result) {
		w.result = result
		nudge(w.changed)
	}

	return wait, true
}

// nudge leaves one element, unless there is one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
