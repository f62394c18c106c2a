package source

import (
	"fmt"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// defaultInterval is the time between two polls where none is said, and the longest time between
// two looks at a catalog that is polled.
const defaultInterval = 15 * time.Minute

// polls reports whether the image of a catalog is polled. One that is named by its digest is not: it
// never becomes another.
func polls(catalog *v1alpha1.CatalogSource) bool {
	return hasPoll(catalog) && catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc &&
		catalog.Spec.Image != "" && !objects.IsPinned(catalog.Spec.Image)
}

func hasPoll(catalog *v1alpha1.CatalogSource) bool {
	return catalog.Spec.UpdateStrategy != nil && catalog.Spec.UpdateStrategy.RegistryPoll != nil
}

// pollInterval returns the time between two polls. With an error, which is for the person who wrote
// it, it is the default.
func pollInterval(catalog *v1alpha1.CatalogSource) (time.Duration, error) {
	text := catalog.Spec.UpdateStrategy.RegistryPoll.Interval
	interval, err := time.ParseDuration(text)
	if err == nil && interval <= 0 {
		err = fmt.Errorf("%q is not longer than no time at all", text)
	}
	if err != nil {
		return defaultInterval, err
	}

	return interval, nil
}

// intervalProblem says what is wrong with the interval of polls. It is empty when nothing is.
func intervalProblem(catalog *v1alpha1.CatalogSource) string {
	if !hasPoll(catalog) {
		return ""
	}

	interval, err := pollInterval(catalog)
	if err == nil {
		return ""
	}
	return fmt.Sprintf("error parsing spec.updateStrategy.registryPoll.interval. Using the default value of %s instead. Error: %s", interval, err)
}

// pollDue is when a catalog is to be polled next. It may be in the past.
func pollDue(catalog *v1alpha1.CatalogSource) time.Time {
	last := catalog.CreationTimestamp
	if at := catalog.Status.LatestImageRegistryPoll; at != nil {
		last = *at
	}
	interval, _ := pollInterval(catalog) // A wrong one is reported elsewhere.
	return last.Add(interval)
}

// nextLook is how long it takes until a catalog is looked at although nothing has happened: at the
// latest after resync, and sooner for a poll.
func nextLook(catalog *v1alpha1.CatalogSource, now time.Time, resync time.Duration) time.Duration {
	if !polls(catalog) {
		return resync
	}

	// Due now means that a poll is under way, or has failed: the next one comes by the interval.
	left := pollDue(catalog).Sub(now)
	if left <= 0 {
		left, _ = pollInterval(catalog)
	}
	return min(left, resync)
}
