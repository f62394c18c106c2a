package version

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// maxUnreportedFailures is the number of consecutive failed passes after which the ClusterVersion
// reports the error.
const maxUnreportedFailures = 15

// recordFailure counts a failed pass and returns its error. After several consecutive
// failures it also reports the error in the status.
func (c *Controller) recordFailure(ctx context.Context, before *configv1.ClusterVersion, err error) error {
	if reconcile.IsStale(err) {
		return err // The next reconciliation reads the changed object.
	}
	if c.memory.failures++; c.memory.failures < maxUnreportedFailures {
		return err
	}

	after := before.DeepCopy()
	conditions := newConditionSet(after, c.Clock.Now())
	conditions.setSyncFailed(err)
	after.Status.Conditions = conditions.sorted()
	if writing := c.statuses.writeStatus(ctx, before, after); writing != nil {
		return fmt.Errorf("%w; reporting this in the status: %w", err, writing)
	}

	return err
}

// statusWriter writes the status of the ClusterVersion. It updates the whole status instead of
// patching it: the API requires fields such as availableUpdates to be null, and a merge patch
// would remove them.
type statusWriter struct {
	// client reads from a cache, reader from the API server.
	client client.Client
	reader client.Reader
}

// writeStatus writes the status if it changed. No other client writes it, so after a conflict it
// is written again to the latest object, unless that object was recreated.
func (w statusWriter) writeStatus(ctx context.Context, before, after *configv1.ClusterVersion) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}

	target := after.DeepCopy()
	err := reconcile.RetryStale(func() error {
		err := w.client.Status().Update(ctx, target)
		if !reconcile.IsStale(err) {
			return err
		}

		var readErr error
		if target, readErr = w.readLatest(ctx, after); readErr != nil {
			return readErr
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the status of ClusterVersion %q: %w", after.Name, err)
	}

	return nil
}

// readLatest returns the latest object with the status of after.
func (w statusWriter) readLatest(ctx context.Context, after *configv1.ClusterVersion) (*configv1.ClusterVersion, error) {
	live := &configv1.ClusterVersion{}
	if err := w.reader.Get(ctx, client.ObjectKeyFromObject(after), live); err != nil {
		return nil, err
	}
	if live.UID != after.UID {
		return nil, errRecreated
	}

	live.Status = *after.Status.DeepCopy()
	return live, nil
}

// errRecreated is returned when the ClusterVersion was deleted and created again since it was
// read.
var errRecreated = errors.New("it was deleted and created again")
