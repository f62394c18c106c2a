package source

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// defaultPollInterval is the default interval between two polls, and the longest interval
// between two reconciliations of a catalog that is polled.
const defaultPollInterval = 15 * time.Minute

// isPolled reports whether the image of a catalog is polled. An image with a digest is not
// polled, because it never changes.
func isPolled(catalog *v1alpha1.CatalogSource) bool {
	return hasPollStrategy(catalog) && catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc &&
		catalog.Spec.Image != "" && !objects.IsPinned(catalog.Spec.Image)
}

func hasPollStrategy(catalog *v1alpha1.CatalogSource) bool {
	return catalog.Spec.UpdateStrategy != nil && catalog.Spec.UpdateStrategy.RegistryPoll != nil
}

// pollInterval returns the interval between two polls. If the spec is invalid, it returns the
// default and an error for the user.
func pollInterval(catalog *v1alpha1.CatalogSource) (time.Duration, error) {
	text := catalog.Spec.UpdateStrategy.RegistryPoll.Interval
	interval, err := time.ParseDuration(text)
	if err == nil && interval <= 0 {
		err = fmt.Errorf("%q is not a positive duration", text)
	}
	if err != nil {
		return defaultPollInterval, err
	}

	return interval, nil
}

// intervalProblem returns the message about an invalid poll interval, or "".
func intervalProblem(catalog *v1alpha1.CatalogSource) string {
	if !hasPollStrategy(catalog) {
		return ""
	}

	interval, err := pollInterval(catalog)
	if err == nil {
		return ""
	}
	return fmt.Sprintf("error parsing spec.updateStrategy.registryPoll.interval. Using the default value of %s instead. Error: %s", interval, err)
}

// nextPollTime returns when a catalog has to be polled next. The time may be in the past.
func nextPollTime(catalog *v1alpha1.CatalogSource) time.Time {
	last := catalog.CreationTimestamp
	if at := catalog.Status.LatestImageRegistryPoll; at != nil {
		last = *at
	}
	interval, _ := pollInterval(catalog) // intervalProblem reports an invalid interval.
	return last.Add(interval)
}

// nextReconcileAfter returns the time until a catalog is reconciled although nothing has
// changed: at most resync, less if a poll is due earlier.
func nextReconcileAfter(catalog *v1alpha1.CatalogSource, now time.Time, resync time.Duration) time.Duration {
	if !isPolled(catalog) {
		return resync
	}

	// If a poll is due now, it is in progress or has failed. The next one follows after the
	// interval.
	left := nextPollTime(catalog).Sub(now)
	if left <= 0 {
		left, _ = pollInterval(catalog)
	}
	return min(left, resync)
}

// schedule determines when catalogs are reconciled although nothing has changed.
type schedule struct {
	resyncInterval time.Duration
	clock          clock.PassiveClock
}

// nextReconcile returns the time until a catalog is reconciled although nothing has changed.
func (s schedule) nextReconcile(catalog *v1alpha1.CatalogSource) time.Duration {
	next := nextReconcileAfter(catalog, s.clock.Now(), s.resyncInterval)
	if isPolled(catalog) {
		return wait.Jitter(next, pollJitterFactor)
	}
	return wait.Jitter(next, resyncJitterFactor)
}

// timestampOf returns the time of a clock in the precision of objects.
func timestampOf(c clock.PassiveClock) metav1.Time {
	return metav1.NewTime(c.Now().Truncate(time.Second))
}
