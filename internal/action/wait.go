package action

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// interval is how often a wait looks again. Readiness is read from objects of every
// kind, so a look is a handful of reads; a person does not notice a quarter of a second.
const interval = 250 * time.Millisecond

// Wait says how an operation waits for its outcome.
type Wait struct {
	// Timeout is how long is waited. Zero means until the context ends.
	Timeout time.Duration
	// Clock is the clock that is waited by. Nil is the real one.
	Clock clock.WithTicker
}

// outlook is what a wait sees when it looks.
type outlook struct {
	parts []report.Part
	// done: what is awaited has happened.
	done bool
	// failed: it will not happen without a person; nil otherwise.
	failed error
	// pending says in a few words what is still awaited.
	pending string
	// advice is what to do when the time is up.
	advice string
}

// until looks again and again until the outlook is done or failed, the time is up, or
// the context ends. A look that could not reach the server is repeated.
func (w *Wait) until(ctx context.Context, object string, progress report.Progress, look func(context.Context) (outlook, error)) error {
	c := w.Clock
	if c == nil {
		c = clock.RealClock{}
	}

	var deadline <-chan time.Time
	if w.Timeout > 0 {
		timer := c.NewTimer(w.Timeout)
		defer timer.Stop()
		deadline = timer.C()
	}

	ticker := c.NewTicker(interval)
	defer ticker.Stop()

	var last outlook
	for {
		seen, err := look(ctx)
		switch {
		case err != nil && !transient(err):
			return serverError(object, err)
		case err != nil:
			if last.pending != err.Error() {
				report.OrQuiet(progress).Warn(object + ": looking again: " + err.Error())
			}
			last.pending = err.Error()
		default:
			last = seen
			report.OrQuiet(progress).Parts(seen.parts)
		}

		if err == nil && seen.failed != nil {
			return &report.Error{Object: object, Err: seen.failed, Advice: seen.advice}
		}
		if err == nil && seen.done {
			return nil
		}

		select {
		case <-ticker.C():
		case <-deadline:
			return &report.Error{Object: object, Err: fmt.Errorf("%w after %s: %s", ErrTimeout, w.Timeout, last.pending), Advice: last.advice}
		case <-ctx.Done():
			return &report.Error{Object: object, Err: fmt.Errorf("no longer waiting: %w", ctx.Err()), Advice: "the cluster goes on with it"}
		}
	}
}

// ErrTimeout says that the time to wait was up before what was awaited happened.
var ErrTimeout = errors.New("timed out")

// transient reports whether a look is worth repeating: the server is busy or not there.
func transient(err error) bool {
	if unknownKind(err) {
		return false
	}

	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// Not an answer of the server: the network, or a context that has ended, which
		// the wait itself notices.
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}
