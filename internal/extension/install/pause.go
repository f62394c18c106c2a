package install

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// firstPause and longestPause bound the pauses between attempts that failed: a cause
// that has gone is noticed within half a minute.
const firstPause, longestPause = 250 * time.Millisecond, 30 * time.Second

// pause is how long the attempt after a failure waits, when so many failed before it in
// a row. It is what the queue's limiter computes.
func pause(failures int) time.Duration {
	const enough = 10 // doublings, after which the longest pause is reached
	return min(firstPause<<min(failures, enough), longestPause)
}

// announced adds to what an attempt failed with when the next one follows, where the
// pauses grow. At the longest pause the text, and so the status, changes no more.
func (c *Controller) announced(req ctrl.Request, err error) error {
	if err == nil || reconcile.IsStop(err) || reconcile.IsWait(err) || c.limiter == nil {
		return err
	}
	return fmt.Errorf("%w; it is tried again in %s", err, pause(c.limiter.NumRequeues(req)))
}
