package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	client   client.Client
	clock    clock.Clock
	applied  *appliedMemory
	plan     *workPlan
	mode     release.Mode
	recorder recorder

	// objects, operators and remover handle the manifests by their kind. They are set when the
	// pass has read what it needs of the cluster.
	objects   *objectApplier
	operators operatorChecker
	remover   objectRemover

	mu sync.Mutex
	// reports are errors that do not stop the pass.
	reports []error
}

// applyManifests applies all manifests of the plan. It returns the errors that failed the pass,
// and those that are only reported. attempt is the number of failed passes so far; it selects
// the order of the task graph.
func (p *pass) applyManifests(ctx context.Context, attempt int) (failed, reports []error) {
	p.objects = &objectApplier{client: p.client, clock: p.clock, applied: p.applied, owner: p.plan.work.Owner, mode: p.mode}
	p.operators = operatorChecker{objects: p.objects, recorder: p.recorder}
	p.remover = objectRemover{client: p.client, mode: p.mode, recorder: p.recorder}
	p.objects.snapshot = newObjectSnapshot(ctx, p.client, p.plan.items)
	if p.plan.needsEnvironment {
		var err error
		if p.objects.environment, err = readEnvironment(ctx, p.client); err != nil {
			return []error{err}, nil
		}
	}

	graph := release.NewGraph(p.plan.manifests, p.mode, attempt)
	failed = graph.Run(ctx, p.maxParallelNodes(graph), func(ctx context.Context, node release.Node) error {
		for _, task := range node.Tasks {
			if it := p.itemForTask(task); it.isClusterOperator() {
				p.operators.precreateClusterOperator(ctx, it)
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
	p.recorder.recordTaskStart(task)
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

	p.recorder.recordTaskEnd(task, err == nil)
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
		for ; isKindNotServed(err) && p.isKindFromRelease(it) && kindRetries < maxMissingKindRetries && sleepContext(ctx, p.clock, missingKindRetryInterval) == nil; kindRetries++ {
			err = p.applyManifest(ctx, it)
		}

		if err != nil && ctx.Err() == nil {
			p.recorder.countFailedAttempt()
		}
		if err == nil || attempt == policy.attempts || isTerminalError(err) || ctx.Err() != nil {
			return err
		}

		log.FromContext(ctx).V(1).Info("failed to apply a manifest, retrying", "object", it.String(), "error", err.Error(), "after", pause.String())
		if sleepContext(ctx, p.clock, pause) != nil {
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
		return p.remover.removeTombstonedObject(ctx, it)
	case it.isClusterOperator():
		return p.operators.reconcileClusterOperator(ctx, it)
	default:
		return p.objects.ensureObject(ctx, it)
	}
}

// sleepContext waits for a duration. It returns an error when the context ends first.
func sleepContext(ctx context.Context, c clock.Clock, pause time.Duration) error {
	timer := c.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", pause, ctx.Err())
	case <-timer.C():
		return nil
	}
}
