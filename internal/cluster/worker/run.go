package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// maxDelayJitter is the largest random part that is added to a delay, as a fraction of it. It
// spreads the retries of clusters that fail at the same time.
const maxDelayJitter = 0.2

// maxBackoffFailures is the number of consecutive failures after which the delay between passes
// equals the period.
const maxBackoffFailures = 4

// Run executes passes until the context ends. It then cancels the running pass; the next Worker
// starts it again. Run returns an error only if it cannot start.
func (w *Worker) Run(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("worker"))
	if err := w.watchClusterOperators(ctx); err != nil {
		return err
	}

	var pause time.Duration
	for w.awaitNextPass(ctx, pause) {
		pause = w.runPass(ctx)
	}

	return nil
}

// awaitNextPass waits until a pass is due: there is new work, the delay has elapsed, or a
// ClusterOperator that a pass may wait for has changed. It returns false when the context ends.
func (w *Worker) awaitNextPass(ctx context.Context, pause time.Duration) bool {
	timer := w.clock.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.workChanged:
		case <-timer.C():
		case <-w.operatorChanged:
			if w.isFullyReconciled() {
				continue
			}
		}
		if w.hasWork() {
			return ctx.Err() == nil
		}
	}
}

func (w *Worker) hasWork() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan != nil
}

// isFullyReconciled reports whether the release is applied and the last pass did not fail, so
// that no pass waits for an operator.
func (w *Worker) isFullyReconciled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.status.Reconciling && w.progress.status.Failure == nil
}

// runPass executes one pass and returns the delay until the next one.
func (w *Worker) runPass(ctx context.Context) time.Duration {
	p, attempt, ctx, cancel := w.beginPass(ctx)
	defer cancel()
	failed, reports := p.applyManifests(ctx, attempt)
	return w.recordPassResult(ctx, p, failed, reports)
}

func (w *Worker) beginPass(ctx context.Context) (*pass, int, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// This pass covers all work that was set until now.
	select {
	case <-w.workChanged:
	default:
	}

	p := &pass{
		client: w.client, clock: w.clock, applied: w.applied,
		plan: w.plan, mode: w.progress.status.State(), recorder: recorder{worker: w, plan: w.plan},
	}
	limit := 2 * w.period
	if p.mode == release.Initializing {
		limit = w.period
	}

	ctx, w.cancel = context.WithTimeout(ctx, limit)
	w.progress.done = 0
	clear(w.progress.inFlight)
	log.FromContext(ctx).V(1).Info("pass started", "version", p.plan.work.Desired.Version, "state", p.mode, "failures", w.failures)

	return p, w.failures, ctx, w.cancel
}

// recordPassResult updates the status with the errors of a pass and returns the delay until the
// next one. The errors in reports do not make the pass fail.
func (w *Worker) recordPassResult(ctx context.Context, p *pass, failed, reports []error) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel = nil
	if w.plan != p.plan {
		return 0 // The work was replaced during the pass.
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return 0
	}
	defer notifyWithoutBlocking(w.statusChanged)
	status := &w.progress.status
	clear(w.progress.inFlight)
	before := errorText(status.Failure)
	status.Failure = summarizePassErrors(append(failed, reports...))
	if len(failed) > 0 {
		w.failures++
		if now := errorText(status.Failure); now != before {
			log.FromContext(ctx).Info("pass failed", "version", p.plan.work.Desired.Version, "state", p.mode, "failure", now)
		}
		return w.nextPassDelay()
	}

	if !status.Reconciling {
		log.FromContext(ctx).Info("applied all manifests of the release", "version", p.plan.work.Desired.Version, "manifests", status.Total)
	}

	w.failures = 0
	status.Initial = false
	status.Reconciling = true
	status.Done = status.Total
	status.Completed++

	return w.nextPassDelay()
}

// nextPassDelay returns the delay until the next pass. After a failure it is shorter than the
// period and doubles with each further failure.
func (w *Worker) nextPassDelay() time.Duration {
	if w.failures == 0 {
		return w.period
	}

	pause := w.period
	if w.failures < maxBackoffFailures {
		pause = w.period / 16 << w.failures
	}
	return pause + time.Duration(maxDelayJitter*rand.Float64()*float64(pause)) //nolint:gosec // G404: it spreads load and guards nothing.
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
