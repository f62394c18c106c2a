package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// jitter is the part of a pause that chance adds to it at most, so that what fails together
// is not tried together.
const jitter = 0.2

// backoffs is how many failures in a row are followed by shorter pauses than the period.
const backoffs = 4

// Run does the work until the context ends; what is under way then is ended quickly, and
// begun anew by the next Worker. It fails only if it cannot begin.
func (w *Worker) Run(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("worker"))
	if err := w.watchOperators(ctx); err != nil {
		return err
	}

	var pause time.Duration
	for w.await(ctx, pause) {
		pause = w.pass(ctx)
	}

	return nil
}

// await waits until a pass is due: there is work, and either it is other work than before,
// or the pause has passed, or an operator changed that may be what a pass waits for. It
// gives false when the context ends.
func (w *Worker) await(ctx context.Context, pause time.Duration) bool {
	timer := w.clock.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.wake:
		case <-timer.C():
		case <-w.operators:
			if w.isSteady() {
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
	return w.job != nil
}

// isSteady reports whether nothing is awaited.
func (w *Worker) isSteady() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.status.Reconciling && w.progress.status.Failure == nil
}

// pass does the work once, and gives the pause until it is done again.
func (w *Worker) pass(ctx context.Context) time.Duration {
	p, attempt, ctx, cancel := w.beginPass(ctx)
	defer cancel()
	failed, reports := p.run(ctx, attempt)
	return w.endPass(ctx, p, failed, reports)
}

func (w *Worker) beginPass(ctx context.Context) (*pass, int, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// What was asked for until now is what this pass is about.
	select {
	case <-w.wake:
	default:
	}

	p := &pass{worker: w, job: w.job, mode: w.progress.status.State()}
	limit := 2 * w.period
	if p.mode == release.Initializing {
		limit = w.period
	}

	ctx, w.cancel = context.WithTimeout(ctx, limit)
	w.progress.done = 0
	clear(w.progress.tasks)
	log.FromContext(ctx).V(1).Info("a pass begins", "version", p.job.work.Desired.Version, "state", p.mode, "failures", w.failures)

	return p, w.failures, ctx, w.cancel
}

// endPass notes what came of a pass.
func (w *Worker) endPass(ctx context.Context, p *pass, failed, reports []error) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel = nil
	if w.job != p.job {
		return 0 // It is about what nobody asks for any more.
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return 0
	}

	defer signal(w.changed)
	status := &w.progress.status
	clear(w.progress.tasks)
	before := text(status.Failure)
	status.Failure = summarize(append(failed, reports...))
	if len(failed) > 0 {
		w.failures++
		if now := text(status.Failure); now != before {
			log.FromContext(ctx).Info("a pass failed", "version", p.job.work.Desired.Version, "state", p.mode, "failure", now)
		}
		return w.pause()
	}

	if !status.Reconciling {
		log.FromContext(ctx).Info("all of the release is applied", "version", p.job.work.Desired.Version, "manifests", status.Total)
	}

	w.failures = 0
	status.Initial, status.Reconciling = false, true
	status.Done = status.Total
	status.Completed++

	return w.pause()
}

// pause is how long to wait after a pass: longer after each failure, up to the period.
func (w *Worker) pause() time.Duration {
	if w.failures == 0 {
		return w.period
	}

	pause := w.period
	if w.failures < backoffs {
		pause = w.period / 16 << w.failures
	}
	return pause + time.Duration(jitter*rand.Float64()*float64(pause)) //nolint:gosec // G404: it spreads load and guards nothing.
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
