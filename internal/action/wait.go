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

// pollInterval is how often a wait reads the state. One poll takes only a handful of reads,
// and users do not notice a quarter of a second.
const pollInterval = 250 * time.Millisecond

// Wait configures how an operation waits for its result.
type Wait struct {
	// Timeout limits the wait. Zero means until the context ends.
	Timeout time.Duration
	// Clock is the clock of the wait. Nil means the real clock.
	Clock clock.WithTicker
}

// Outcome is the result of one poll.
type Outcome struct {
	// Parts are the parts of the operation, for display.
	Parts []report.Part
	// Done means that the awaited state is reached.
	Done bool
	// Failed is the reason why the state will not be reached without intervention. It is
	// nil otherwise.
	Failed error
	// Pending describes what is still missing.
	Pending string
	// Advice is what to do after a timeout.
	Advice string
}

// Poll polls until the outcome is done or failed, the timeout expires, or the context ends. It
// retries a poll that could not reach the server.
func (w *Wait) Poll(ctx context.Context, object string, progress report.Progress, poll func(context.Context) (Outcome, error)) error {
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

	ticker := c.NewTicker(pollInterval)
	defer ticker.Stop()

	var last Outcome
	for {
		outcome, err := poll(ctx)
		switch {
		case err != nil && !isTransientError(err):
			return NewServerError(object, err)
		case err != nil:
			if last.Pending != err.Error() {
				report.OrQuiet(progress).Warn(object + ": retrying: " + err.Error())
			}
			last.Pending = err.Error()
		default:
			last = outcome
			report.OrQuiet(progress).Parts(outcome.Parts)
		}

		if err == nil && outcome.Failed != nil {
			return &report.Error{Object: object, Err: outcome.Failed, Advice: outcome.Advice}
		}
		if err == nil && outcome.Done {
			return nil
		}

		select {
		case <-ticker.C():
		case <-deadline:
			return &report.Error{Object: object, Err: fmt.Errorf("%w after %s: %s", ErrTimeout, w.Timeout, last.Pending), Advice: last.Advice}
		case <-ctx.Done():
			return &report.Error{Object: object, Err: fmt.Errorf("no longer waiting: %w", ctx.Err()), Advice: "the cluster continues with it"}
		}
	}
}

// ErrTimeout reports that the timeout expired before the awaited state was reached.
var ErrTimeout = errors.New("timed out")

// isTransientError reports whether a poll is worth retrying: the server is busy or
// unreachable.
func isTransientError(err error) bool {
	if IsUnknownKind(err) {
		return false
	}

	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// This is no response of the server but a network error, or the end of the context,
		// which the wait itself notices.
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}
