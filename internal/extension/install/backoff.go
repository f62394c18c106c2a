package install

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// firstRetryInterval and maxRetryInterval limit the exponential backoff of failed attempts. Once a
// cause is removed, an attempt follows within half a minute.
const firstRetryInterval, maxRetryInterval = 250 * time.Millisecond, 30 * time.Second

// retryIntervalAfter returns the retry interval after a number of failures in a row. The rate
// limiter of the queue computes the same.
func retryIntervalAfter(failures int) time.Duration {
	const maxDoublings = 10 // reaches maxRetryInterval
	return min(firstRetryInterval<<min(failures, maxDoublings), maxRetryInterval)
}

// appendRetryInterval appends the retry interval to an error that is retried with backoff. At the
// maximum interval the text, and so the status, no longer changes.
func (c *Controller) appendRetryInterval(ext *olmv1.ClusterExtension, err error) error {
	if err == nil || reconcile.IsStop(err) || reconcile.IsWait(err) || c.rateLimiter == nil {
		return err
	}
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ext)}
	return fmt.Errorf("%w; it is tried again in %s", err, retryIntervalAfter(c.rateLimiter.NumRequeues(req)))
}
