// Package worker brings a cluster to a release that was accepted, and keeps it there: it
// applies the manifests of the payload in their order, waits for what they start, tells
// how far it is and what it waits for, and begins anew when it is done.
//
// It keeps nothing but caches: a Worker that is stopped at any point, or replaced by that
// of the next release in the middle of an update, leaves nothing that the next one could
// not go on from.
//
// It neither finds, pulls, verifies nor accepts releases, and it writes no ClusterVersion:
// who does gives it Work and reads its Status.
package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// Options are what a Worker needs.
type Options struct {
	// Client reads from the API server, not from a cache, and notices new kinds. Its scheme
	// has the kinds of api/config/v1. Required.
	Client client.Client
	// Informers tell of ClusterOperators, so that a Worker that waits for one goes on when
	// it has changed. Nil means that it only looks again after a while.
	Informers cache.Informers
	// Period is about how often the cluster is looked at when nothing fails: the whole is
	// repeated after it. Zero means between 2 and 4 minutes, chosen once.
	Period time.Duration
	// Clock tells the time. Nil means the real one.
	Clock clock.Clock
}

// Worker brings a cluster to a release. Make it with New; Run does the work. Its methods may
// be called by several goroutines, Run by one.
type Worker struct {
	client    client.Client
	informers cache.Informers
	period    time.Duration
	clock     clock.Clock
	memory    *memory

	// changed says that the status changed, wake that there is other work, operators that
	// a ClusterOperator changed.
	changed, wake, operators chan struct{}

	mu sync.Mutex
	// job is the present work; nil before the first.
	job *job
	// cancel ends the present pass.
	cancel context.CancelFunc
	// failures are those since the last success.
	failures int
	progress progress
}

// New makes a Worker without work.
func New(options Options) *Worker {
	if options.Period == 0 {
		factor := 1 + rand.Float64() //nolint:gosec // G404: it spreads load and guards nothing.
		options.Period = time.Duration(factor * float64(2*time.Minute))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Worker{
		client: options.Client, informers: options.Informers, period: options.Period, clock: options.Clock, memory: newMemory(),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), operators: make(chan struct{}, 1),
		progress: newProgress(Status{}),
	}
}

// Changed gets a value after the Status has changed, and one for many changes that nobody
// saw. It has one reader.
func (w *Worker) Changed() <-chan struct{} { return w.changed }

// Status tells how far the work is.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.snapshot()
}

// Update replaces the work. For another release everything begins anew, in the state that
// the work names; work for the same release goes on in the state that was reached. A pass
// that is under way is ended when its work is no longer what is wanted, and not otherwise:
// the same work may be given again and again.
func (w *Worker) Update(work Work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := newJob(&work, w.job)
	before := w.job
	w.job = next
	switch {
	case before == nil || !before.work.isRelease(&work):
		w.failures = 0
		w.progress = newProgress(Status{
			Initial: work.State == release.Initializing, Reconciling: work.State == release.Reconciling, Started: w.clock.Now(),
		})
		w.memory.keep(next.items)
	case next.isNot(before):
		w.failures = 0
		clear(w.progress.deleting)
		w.memory.keep(next.items)
	default:
		// The pass goes on, in the name of the new work.
		w.job = before
		before.work.Generation, before.work.Payload, before.work.Cluster = work.Generation, work.Payload, work.Cluster
		w.describe(&work)
		return
	}

	w.describe(&work)
	if w.cancel != nil {
		w.cancel()
	}

	signal(w.wake)
}

// describe writes what the status repeats of the work.
func (w *Worker) describe(work *Work) {
	status := &w.progress.status
	status.Generation, status.Actual = work.Generation, work.Desired
	status.Verified, status.AcceptedRisks = work.Verified, work.AcceptedRisks
	status.Capabilities = work.Capabilities
	status.VersionHash, status.Total = w.job.hash, len(w.job.items)
	status.Done = min(status.Done, status.Total)
	signal(w.changed)
}

// signal leaves a value in a channel for one, unless there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
