// Package worker applies an accepted release to a cluster and keeps it applied. It applies the
// manifests of the payload in order, waits for the workloads and operators that they start, and
// reports progress and what it waits for. When a pass is complete, it repeats it periodically.
//
// A Worker holds only caches. It can be stopped at any point, or replaced by the Worker of the
// next release in the middle of an update. The next Worker continues from the state of the
// cluster.
//
// It does not find, pull, verify or accept releases, and it does not write ClusterVersions. Its
// caller passes in Work and reads the Status.
package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/apply/memory"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Options are the dependencies and settings of a Worker.
type Options struct {
	// Client reads from the API server, not from a cache, and discovers new kinds. Its scheme
	// contains the kinds of api/config/v1. Required.
	Client client.Client
	// Informers watch ClusterOperators, so that a Worker that waits for one continues when it
	// changes. If nil, the Worker only polls.
	Informers cache.Informers
	// ResyncInterval is the approximate resync interval: a successful pass is repeated after it. Zero
	// means a value between 2 and 4 minutes, chosen once per Worker.
	ResyncInterval time.Duration
	// Clock is the source of time. Nil means the real clock.
	Clock clock.Clock
}

// Worker applies a release to a cluster. Create it with New and start it with Run. Its methods
// may be called by several goroutines, Run by one.
type Worker struct {
	client    client.Client
	informers cache.Informers
	period    time.Duration
	clock     clock.Clock
	applied   *appliedMemory

	// statusChanged signals that the status changed, workChanged that there is new work, and
	// operatorChanged that a ClusterOperator changed.
	statusChanged, workChanged, operatorChanged chan struct{}

	mu sync.Mutex
	// lastUpdate is the argument of the last Update. It is nil before the first.
	lastUpdate *Work
	// plan is the current work; nil before the first Update.
	plan *workPlan
	// cancel ends the current pass.
	cancel context.CancelFunc
	// failures counts the failed passes since the last success.
	failures int
	progress progress
}

// New returns a Worker without work.
func New(options Options) *Worker {
	if options.ResyncInterval == 0 {
		factor := 1 + rand.Float64() //nolint:gosec // G404: it spreads load and guards nothing.
		options.ResyncInterval = time.Duration(factor * float64(2*time.Minute))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Worker{
		client: options.Client, informers: options.Informers, period: options.ResyncInterval, clock: options.Clock, applied: memory.New[bool](maxRememberedObjects),
		statusChanged: make(chan struct{}, 1), workChanged: make(chan struct{}, 1), operatorChanged: make(chan struct{}, 1),
		progress: newProgress(Status{}),
	}
}

// Changed returns a channel that receives a value after the Status has changed. Changes that are
// not read yet are merged into one value. The channel supports one reader.
func (w *Worker) Changed() <-chan struct{} { return w.statusChanged }

// Status returns a copy of the current status.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.snapshot()
}

// Update replaces the work. For another release, progress is reset and the Worker starts in the
// state that the work names. Work for the same release continues in the state that was reached.
// A running pass is canceled only if its work is no longer wanted. Work that is the same as that of
// the last Update is ignored.
func (w *Worker) Update(work Work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastUpdate != nil && w.lastUpdate.isSameWork(&work) {
		return
	}

	w.lastUpdate = &work
	next := newWorkPlan(&work, w.plan)
	before := w.plan
	w.plan = next
	switch {
	case before == nil || !before.work.isSameRelease(&work):
		w.failures = 0
		w.progress = newProgress(Status{
			Initial: work.State == release.Initializing, Reconciling: work.State == release.Reconciling, Started: w.clock.Now(),
		})
	case next.differsFrom(before):
		w.failures = 0
		clear(w.progress.deleting)
	default:
		// The running pass continues and reports the generation of the new work.
		w.plan = before
		before.work.Generation = work.Generation
		before.work.Payload = work.Payload
		before.work.Cluster = work.Cluster
		w.copyWorkToStatus(&work)
		return
	}

	w.copyWorkToStatus(&work)
	if w.cancel != nil {
		w.cancel()
	}

	notifyWithoutBlocking(w.workChanged)
}

// copyWorkToStatus copies the fields of the work that the status repeats.
func (w *Worker) copyWorkToStatus(work *Work) {
	status := &w.progress.status
	status.Generation = work.Generation
	status.Actual = work.Desired
	status.Verified = work.Verified
	status.AcceptedRisks = work.AcceptedRisks
	status.Capabilities = work.Capabilities
	status.VersionHash = w.plan.hash
	status.Total = len(w.plan.items)
	status.Done = min(status.Done, status.Total)
	notifyWithoutBlocking(w.statusChanged)
}

// notifyWithoutBlocking sends a value to a buffered channel, unless the channel is full.
func notifyWithoutBlocking(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
