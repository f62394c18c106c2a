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

// How many nodes of the task graph are worked on side by side. While a cluster is made, all
// of them are.
const (
	parallelUpdating    = 16
	parallelReconciling = 2
)

// retries are how an attempt at a manifest that fails is repeated within a pass.
type retries struct {
	attempts int
	pause    time.Duration
	factor   float64
}

// maxRetryPause is the longest pause between attempts.
const maxRetryPause = 15 * time.Second

// A kind that the release brings is served a while after its CRD was written: on a busy
// server, where many are new, after half a minute.
const (
	kindPause = 500 * time.Millisecond
	kindLooks = 120
)

// The API server of a new cluster lacks kinds and namespaces only for moments.
var (
	initialRetries = retries{attempts: 4, pause: time.Second, factor: 2}
	usualRetries   = retries{attempts: 3, pause: 10 * time.Second, factor: 1.3}
)

// pass is one attempt at all manifests of a job.
type pass struct {
	worker      *Worker
	job         *job
	mode        release.Mode
	survey      *survey
	environment environment

	mu sync.Mutex
	// reports are errors that let the pass go on.
	reports []error
}

// run does it. It gives what failed, and what is to be told though nothing failed.
func (p *pass) run(ctx context.Context, attempt int) (failed, reports []error) {
	p.survey = newSurvey(ctx, p.worker.client, p.job.items)
	if p.job.injects {
		var err error
		if p.environment, err = readEnvironment(ctx, p.worker.client); err != nil {
			return []error{err}, nil
		}
	}

	graph := release.NewGraph(p.job.manifests, p.mode, attempt)
	failed = graph.Run(ctx, p.parallel(graph), func(ctx context.Context, node release.Node) error {
		for _, task := range node.Tasks {
			if it := p.item(task); it.isOperator() {
				p.precreate(ctx, it)
			}
		}
		return release.Serially(p.do)(ctx, node)
	})

	return failed, p.reports
}

func (p *pass) parallel(graph release.Graph) int {
	switch p.mode {
	case release.Initializing:
		return len(graph.Nodes)
	case release.Updating:
		return parallelUpdating
	default:
		return parallelReconciling
	}
}

func (p *pass) item(task release.Task) *item { return &p.job.items[task.Number-1] }

// do does the work on one manifest.
func (p *pass) do(ctx context.Context, task release.Task) error {
	p.worker.begin(p.job, task)
	it := p.item(task)
	var err error
	if it.excluded != "" {
		log.FromContext(ctx).V(2).Info("passed over a manifest", "object", it.String(), "why", it.excluded)
	} else {
		err = p.try(ctx, it)
	}

	if err != nil {
		err = taskError(task, err)
		if judged := (*Error)(nil); errors.As(err, &judged) && judged.Effect == EffectReport {
			p.mu.Lock()
			p.reports = append(p.reports, err)
			p.mu.Unlock()
			err = nil
		}
	}

	p.worker.end(p.job, task, err == nil)
	return err
}

// try applies a manifest, and repeats it when that may help.
func (p *pass) try(ctx context.Context, it *item) error {
	policy := usualRetries
	if p.mode == release.Initializing {
		policy = initialRetries
	}

	pause := policy.pause
	looks := 0
	for attempt := 1; ; attempt++ {
		err := p.apply(ctx, it)
		for ; isKindMissing(err) && p.bringsKind(it) && looks < kindLooks && p.worker.sleep(ctx, kindPause) == nil; looks++ {
			err = p.apply(ctx, it)
		}

		if err != nil && ctx.Err() == nil {
			p.worker.noteError(p.job)
		}
		if err == nil || attempt == policy.attempts || isJudged(err) || ctx.Err() != nil {
			return err
		}

		log.FromContext(ctx).V(1).Info("a manifest could not be applied, and is tried again", "object", it.String(), "error", err.Error(), "after", pause.String())
		if p.worker.sleep(ctx, pause) != nil {
			return err
		}

		pause = min(time.Duration(float64(pause)*policy.factor), maxRetryPause)
	}
}

// bringsKind reports whether the release brings the kind of a manifest, so that it is served
// soon. When a cluster is kept as it is, too few manifests are worked on side by side to wait
// for one.
func (p *pass) bringsKind(it *item) bool {
	return p.mode != release.Reconciling && p.job.kinds[it.kind.GroupKind()]
}

// isJudged reports whether trying again at once is of no use: the cluster answered, and what
// it answered is what is wrong.
func isJudged(err error) bool {
	judged, faulty := (*Error)(nil), fault{}
	return errors.As(err, &judged) || errors.As(err, &faulty)
}

func (p *pass) apply(ctx context.Context, it *item) error {
	switch {
	case it.fault != nil:
		return fault{it.fault}
	case it.deletes:
		return p.remove(ctx, it)
	case it.isOperator():
		return p.operator(ctx, it)
	default:
		return p.ensure(ctx, it)
	}
}

// begin notes that a manifest is worked on.
func (w *Worker) begin(j *job, task release.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job == j {
		w.progress.tasks[task.Number] = taskName(task)
	}
}

// end notes that it is not any more.
func (w *Worker) end(j *job, task release.Task, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != j {
		return
	}

	p := &w.progress
	delete(p.tasks, task.Number)
	if !done {
		return
	}
	if p.done++; p.done > p.status.Done {
		p.status.Done, p.status.LastProgress = p.done, w.clock.Now()
	}

	signal(w.changed)
}

// noteError counts an attempt that failed.
func (w *Worker) noteError(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job == j {
		w.progress.status.Errors++
	}
}

// noteOperator keeps since when a ClusterOperator is awaited.
func (w *Worker) noteOperator(j *job, name string, isWell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != j {
		return
	}

	if isWell {
		delete(w.progress.waiting, name)
	} else if w.progress.waiting[name].IsZero() {
		w.progress.waiting[name] = w.clock.Now()
	}
}

// noteDeletion keeps which deletions have not ended.
func (w *Worker) noteDeletion(j *job, object string, isPending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != j {
		return
	}

	if isPending {
		w.progress.deleting[object] = true
	} else {
		delete(w.progress.deleting, object)
	}
}

// sleep waits. It fails when the context ends.
func (w *Worker) sleep(ctx context.Context, pause time.Duration) error {
	timer := w.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", pause, ctx.Err())
	case <-timer.C():
		return nil
	}
}
