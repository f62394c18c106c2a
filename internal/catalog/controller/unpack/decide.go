package unpack

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// isAvailable reports whether a catalog's content is to be offered.
func isAvailable(catalog *olmv1.ClusterCatalog) bool {
	return catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
}

// isDue reports whether the registry has to be asked: nothing is stored, what is stored was
// asked for by another reference, or it is time to poll.
func isDue(image olmv1.ImageSource, stored *catalogstore.Info, now time.Time, share float64) bool {
	if stored == nil || stored.Ref != image.Ref {
		return true
	}
	at := dueAt(image, *stored, share)
	// Else a clock that was set back would put off the poll for as long.
	setBack := now.Before(stored.Confirmed.Add(-clockSlack))
	return !at.IsZero() && (!now.Before(at) || setBack)
}

// retrievalRequest identifies what of a catalog decides on its retrieval: a change of it
// cancels the one under way.
func retrievalRequest(catalog *olmv1.ClusterCatalog) string {
	image := catalog.Spec.Source.Image
	return fmt.Sprintf("%s %s %v %s", catalog.UID, image.Ref, pollInterval(*image), catalog.Annotations[olmv1.AnnotationRefresh])
}

// clockSlack is how far a clock may be behind without having been set back: those that
// keep clocks right slew them by less.
const clockSlack = time.Minute

// isRequested reports whether a person has asked for the registry to be looked at, and it
// was not since. A request that was carried out by an earlier process is known by the
// time at which what is stored was last confirmed.
func isRequested(request, carriedOut string, stored *catalogstore.Info) bool {
	at, err := time.Parse(time.RFC3339Nano, request)
	if err != nil || request == carriedOut {
		return false
	}
	return stored == nil || at.After(stored.Confirmed)
}

// pinned returns the image that was resolved from the present spec, if the spec does not ask
// for polling: when its content was lost, or another replica led until now, a tag that has
// moved since is not to be picked up. It is empty when the reference has to be resolved.
func pinned(catalog *olmv1.ClusterCatalog) string {
	resolved := catalog.Status.ResolvedSource
	if resolved == nil || resolved.Image == nil || pollInterval(*catalog.Spec.Source.Image) > 0 {
		return ""
	}

	done := meta.FindStatusCondition(catalog.Status.Conditions, olmv1.TypeProgressing)
	if done == nil || done.Reason != olmv1.ReasonSucceeded || done.ObservedGeneration != catalog.Generation {
		return ""
	}

	return resolved.Image.Ref
}

// dueAt is when the registry is next polled; zero means never.
func dueAt(image olmv1.ImageSource, stored catalogstore.Info, share float64) time.Time {
	interval := pollInterval(image)
	if interval <= 0 {
		return time.Time{}
	}
	return stored.Confirmed.Add(interval + jitter(interval, share))
}

// pollInterval is how often the registry is asked; zero means never.
func pollInterval(image olmv1.ImageSource) time.Duration {
	if image.PollIntervalMinutes == nil {
		return 0
	}
	return time.Duration(*image.PollIntervalMinutes) * time.Minute
}

// jitter spreads the polls of catalogs that were created together: up to a tenth of the
// interval is added, the same for one catalog each time.
func jitter(interval time.Duration, share float64) time.Duration {
	return time.Duration(float64(interval) * share / 10)
}

// jitterOf returns a catalog's share of the spread, from 0 to 1.
func jitterOf(uid types.UID) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // It never fails.
	return float64(h.Sum32()) / (1 << 32)
}

// conditions are those of a ClusterCatalog.
var conditions = reconcile.Conditions{olmv1.TypeProgressing, olmv1.TypeServing}

// Messages of conditions.
const (
	messageUnpacked    = "Successfully unpacked and stored content from resolved source"
	messageServing     = "Serving desired content from resolved source"
	messageUnavailable = "Catalog availability mode is set to Unavailable"
	messageNothing     = "No content is stored"
)

// summarize sets the conditions, and clears of the status what is not so any more. While a
// retrieval is under way the status stays: its end decides what is true.
func (r *Reconciler) summarize(catalog *olmv1.ClusterCatalog, err error) {
	if errors.Is(err, pull.ErrRetrieving) {
		return
	}

	serves := r.Store.Serves(catalog.Name)
	if !serves {
		catalog.Status.ResolvedSource = nil
		catalog.Status.URLs = nil
		catalog.Status.LastUnpacked = nil
	}

	for _, condition := range []metav1.Condition{progressing(catalog, err), serving(catalog, serves)} {
		conditions.Set(&catalog.Status.Conditions, catalog.Generation, condition)
	}
}

// progressing reports whether the content is as the spec asks, and if not, why.
func progressing(catalog *olmv1.ClusterCatalog, err error) metav1.Condition {
	condition := metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded}
	switch {
	case err != nil:
		condition.Reason = reconcile.ReasonOf(err, olmv1.ReasonRetrying)
		condition.Message = err.Error()
		if condition.Reason == olmv1.ReasonBlocked {
			condition.Status = metav1.ConditionFalse
		}
	case !isAvailable(catalog):
		condition.Message = messageUnavailable
	default:
		condition.Message = messageUnpacked
	}

	return condition
}

// serving reports whether clients can read content.
func serving(catalog *olmv1.ClusterCatalog, serves bool) metav1.Condition {
	condition := metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionFalse}
	switch {
	case !isAvailable(catalog):
		condition.Reason, condition.Message = olmv1.ReasonUserSpecifiedUnavailable, messageUnavailable
	case serves:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = olmv1.ReasonAvailable, messageServing
	default:
		condition.Reason, condition.Message = olmv1.ReasonUnavailable, messageNothing
	}

	return condition
}
