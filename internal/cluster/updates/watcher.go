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
	// ProgramVersion is the version of this program. It is sent to update services.
	ProgramVersion string
	// PromQL evaluates rules of type PromQL. If nil, these cannot be evaluated. Use a [Cache].
	PromQL Querier
	// Log receives errors of update services.
	Log logr.Logger
	// Clock and Period are for tests. The defaults are the real clock and a random period of two
	// to four minutes.
	Clock  clock.WithTicker
	Period time.Duration
}

// Watcher keeps the available updates of a cluster up to date. It is a Runnable of a manager
// that runs on the leader. Its methods may be called at any time and do not block.
type Watcher struct {
	updater       *updater
	clock         clock.WithTicker
	queryChanged  chan struct{} // has an element if the query changed
	resultChanged chan struct{} // has an element if the result changed

	mu     sync.Mutex
	query  Query
	known  []configv1.ConditionalUpdate
	isSet  bool
	result Result
	// retrieved is the time of the last successful query of the update service.
	retrieved   time.Time
	cancelQuery context.CancelFunc // cancels the running query
}

// NewWatcher returns a watcher. It does nothing until it is started and has a query.
func NewWatcher(o Options) *Watcher {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Watcher{
		updater: newUpdater(o), clock: o.Clock,
		queryChanged: make(chan struct{}, 1), resultChanged: make(chan struct{}, 1),
	}
}

// NeedLeaderElection returns true: only one replica queries.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Set sets the query. The transition times of conditions in the known updates are kept. Setting
// the same query again is cheap, so Set may be called in each reconciliation.
func (w *Watcher) Set(q Query, known []configv1.ConditionalUpdate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isSet && w.query.equal(q) {
		return
	}
	if w.cancelQuery != nil && w.query.identityKey() != q.identityKey() {
		w.cancelQuery() // The result is no longer wanted.
	}

	w.query, w.isSet = q, true
	if w.known == nil {
		w.known = known
	}

	notifyWithoutBlocking(w.queryChanged)
}

// Result returns the current result. It must not be changed.
func (w *Watcher) Result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result
}

// Retrieved returns the time of the last successful query of the update service; the zero time
// if there was none.
func (w *Watcher) Retrieved() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retrieved
}

// Changed returns a channel that has an element if the result changed since the last receive.
func (w *Watcher) Changed() <-chan struct{} { return w.resultChanged }

// Start keeps the result up to date until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	for {
		wait, ok := w.syncOnce(ctx)
		var due <-chan time.Time
		if ok {
			due = w.clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.queryChanged:
		case <-due:
		}
	}
}

// syncOnce refreshes the result if there is a query. It returns the delay until the next
// refresh, and false if there is no query.
func (w *Watcher) syncOnce(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	q, known, isSet := w.query, w.known, w.isSet
	w.cancelQuery = cancel
	w.mu.Unlock()
	if !isSet {
		return 0, false
	}

	result, wait := w.updater.refreshResult(ctx, q, known)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelQuery = nil
	w.retrieved = w.updater.lastSuccess
	if ctx.Err() != nil {
		return 0, true // The query changed in the meantime.
	}
	if !result.equal(w.result) {
		w.result = result
		notifyWithoutBlocking(w.resultChanged)
	}

	return wait, true
}

// notifyWithoutBlocking sends an element to a buffered channel, unless the channel is full.
func notifyWithoutBlocking(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
