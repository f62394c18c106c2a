package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// The maximum number of nodes of the task graph that are worked on in parallel. While a cluster
// is initialized, there is no limit.
const (
	maxParallelUpdating    = 16
	maxParallelReconciling = 2
)

// retryPolicy states how a failed attempt at a manifest is retried within a pass.
type retryPolicy struct {
	attempts int
	interval time.Duration
	factor   float64
}

// maxManifestRetryInterval is the longest interval between attempts at a manifest.
const maxManifestRetryInterval = 15 * time.Second

// The API server serves a kind some time after its CRD was created. On a busy server with many
// new CRDs this takes up to half a minute.
const (
	missingKindRetryInterval = 500 * time.Millisecond
	maxMissingKindRetries    = 120
)

// The API server of a new cluster lacks kinds and namespaces only for moments, so the first pass
// retries sooner.
var (
	initializingRetryPolicy = retryPolicy{attempts: 4, interval: time.Second, factor: 2}
	defaultRetryPolicy      = retryPolicy{attempts: 3, interval: 10 * time.Second, factor: 1.3}
)

// pass is one attempt at all manifests of a work plan.
type pass struct {
	worker      *Worker
	plan        *workPlan
	mode        release.Mode
	snapshot    *objectSnapshot
	environment environment

	mu sync.Mutex
	// reports are errors that do not stop the pass.
	reports []error
}

// applyManifests applies all manifests of the plan. It returns the errors that failed the pass,
// and those that are only reported. attempt is the number of failed passes so far; it selects
// the order of the task graph.
func (p *pass) applyManifests(ctx context.Context, attempt int) (failed, reports []error) {
	p.snapshot = newObjectSnapshot(ctx, p.worker.client, p.plan.items)
	if p.plan.needsEnvironment {
		var err error
		if p.environment, err = readEnvironment(ctx, p.worker.client); err != nil {
			return []error{err}, nil
		}
	}

	graph := release.NewGraph(p.plan.manifests, p.mode, attempt)
	failed = graph.Run(ctx, p.maxParallelNodes(graph), func(ctx context.Context, node release.Node) error {
		for _, task := range node.Tasks {
			if it := p.itemForTask(task); it.isClusterOperator() {
				p.precreateClusterOperator(ctx, it)
			}
		}
		return release.RunSerially(p.runTask)(ctx, node)
	})

	return failed, p.reports
}

// maxParallelNodes returns how many nodes of the graph are worked on in parallel.
func (p *pass) maxParallelNodes(graph release.Graph) int {
	switch p.mode {
	case release.Initializing:
		return len(graph.Nodes)
	case release.Updating:
		return maxParallelUpdating
	default:
		return maxParallelReconciling
	}
}

func (p *pass) itemForTask(task release.Task) *item { return &p.plan.items[task.Number-1] }

// runTask applies the manifest of a task and records its start and end. An error with
// EffectReport is collected and not returned.
func (p *pass) runTask(ctx context.Context, task release.Task) error {
	p.worker.recordTaskStart(p.plan, task)
	it := p.itemForTask(task)
	var err error
	if it.exclusionReason != "" {
		log.FromContext(ctx).V(2).Info("skipped a manifest", "object", it.String(), "reason", it.exclusionReason)
	} else {
		err = p.applyWithRetries(ctx, it)
	}

	if err != nil {
		err = newTaskError(task, err)
		if judged := (*Error)(nil); errors.As(err, &judged) && judged.Effect == EffectReport {
			p.mu.Lock()
			p.reports = append(p.reports, err)
			p.mu.Unlock()
			err = nil
		}
	}

	p.worker.recordTaskEnd(p.plan, task, err == nil)
	return err
}

// applyWithRetries applies a manifest and retries errors that may be transient.
func (p *pass) applyWithRetries(ctx context.Context, it *item) error {
	policy := defaultRetryPolicy
	if p.mode == release.Initializing {
		policy = initializingRetryPolicy
	}

	pause := policy.interval
	kindRetries := 0
	for attempt := 1; ; attempt++ {
		err := p.applyManifest(ctx, it)
		for ; isKindNotServed(err) && p.isKindFromRelease(it) && kindRetries < maxMissingKindRetries && p.worker.sleepContext(ctx, missingKindRetryInterval) == nil; kindRetries++ {
			err = p.applyManifest(ctx, it)
		}

		if err != nil && ctx.Err() == nil {
			p.worker.countFailedAttempt(p.plan)
		}
		if err == nil || attempt == policy.attempts || isTerminalError(err) || ctx.Err() != nil {
			return err
		}

		log.FromContext(ctx).V(1).Info("failed to apply a manifest, retrying", "object", it.String(), "error", err.Error(), "after", pause.String())
		if p.worker.sleepContext(ctx, pause) != nil {
			return err
		}

		pause = min(time.Duration(float64(pause)*policy.factor), maxManifestRetryInterval)
	}
}

// isKindFromRelease reports whether a CRD of the release defines the kind of a manifest, so that
// the API server serves it soon. It is false when the cluster is reconciled: too few manifests
// are then worked on in parallel to wait for one.
func (p *pass) isKindFromRelease(it *item) bool {
	return p.mode != release.Reconciling && p.plan.definedKinds[it.kind.GroupKind()]
}

// isTerminalError reports whether a retry within the pass cannot help: the manifest is invalid,
// or the state of the cluster was read and is unhealthy.
func isTerminalError(err error) bool {
	judged, faulty := (*Error)(nil), manifestError{}
	return errors.As(err, &judged) || errors.As(err, &faulty)
}

func (p *pass) applyManifest(ctx context.Context, it *item) error {
	switch {
	case it.manifestErr != nil:
		return manifestError{it.manifestErr}
	case it.isTombstone:
		return p.removeTombstonedObject(ctx, it)
	case it.isClusterOperator():
		return p.reconcileClusterOperator(ctx, it)
	default:
		return p.ensureObject(ctx, it)
	}
}

// recordTaskStart records that a manifest is in flight.
func (w *Worker) recordTaskStart(plan *workPlan, task release.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan == plan {
		w.progress.inFlight[task.Number] = describeTask(task)
	}
}

// recordTaskEnd records that a manifest is no longer in flight and, if it is done, counts it.
func (w *Worker) recordTaskEnd(plan *workPlan, task release.Task, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan != plan {
		return
	}

	p := &w.progress
	delete(p.inFlight, task.Number)
	if !done {
		return
	}
	if p.done++; p.done > p.status.Done {
		p.status.Done = p.done
		p.status.LastProgress = w.clock.Now()
	}

	notifyWithoutBlocking(w.statusChanged)
}

// countFailedAttempt counts a failed attempt at a manifest.
func (w *Worker) countFailedAttempt(plan *workPlan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan == plan {
		w.progress.status.Errors++
	}
}

// recordOperatorWait records since when the Worker waits for a ClusterOperator, or that it does
// not wait any more.
func (w *Worker) recordOperatorWait(plan *workPlan, name string, isWell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan != plan {
		return
	}

	if isWell {
		delete(w.progress.waitingSince, name)
	} else if w.progress.waitingSince[name].IsZero() {
		w.progress.waitingSince[name] = w.clock.Now()
	}
}

// recordPendingDeletion records whether the deletion of an object is pending.
func (w *Worker) recordPendingDeletion(plan *workPlan, object string, isPending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan != plan {
		return
	}

	if isPending {
		w.progress.deleting[object] = true
	} else {
		delete(w.progress.deleting, object)
	}
}

// sleepContext waits for a duration. It returns an error when the context ends first.
func (w *Worker) sleepContext(ctx context.Context, pause time.Duration) error {
	timer := w.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", pause, ctx.Err())
	case <-timer.C():
		return nil
	}
}
