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
	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// isAvailable reports whether the content of a catalog is to be served.
func isAvailable(catalog *olmv1.ClusterCatalog) bool {
	return catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
}

// facts are what a decision about a catalog depends on. Those after now are only known of a catalog that is
// available and has an image.
type facts struct {
	now time.Time
	// stored describes the stored content. It is nil if there is none or if it is damaged.
	stored *catalogstore.Info
	// lastRefresh is the last refresh request that this process has carried out.
	lastRefresh string
	// retrieval is the state of the retrieval of the content. If it has ended, retrieved is its result and
	// retrievalError its error.
	retrieval      pull.State
	retrieved      catalogstore.Info
	retrievalError error
}

// isRefreshRequested reports whether a user has requested a refresh that was not carried out yet.
func (f facts) isRefreshRequested(catalog *olmv1.ClusterCatalog) bool {
	return isRefreshRequested(refreshRequest(catalog), f.lastRefresh, f.stored)
}

// action is what a pass does to the content of a catalog.
type action int

const (
	actionNone action = iota
	actionRemove
	actionRetrieve
)

// decision is what a pass does, and its outcome.
type decision struct {
	action action
	// completesRefresh means that the requested refresh was carried out.
	completesRefresh bool
	// content is the content that the status describes. It is nil if the pass has none to describe.
	content *catalogstore.Info
	// err is why the pass does not end with success.
	err error
}

// decideContent decides what to do with the content of a catalog. Content that is stored already is published
// unless a poll or a refresh is due.
func decideContent(catalog *olmv1.ClusterCatalog, f facts) *decision {
	image := catalog.Spec.Source.Image
	switch {
	case !isAvailable(catalog):
		return &decision{action: actionRemove}
	case image == nil:
		return &decision{err: reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("source type %q is not known: set spec.source.type to Image and spec.source.image", catalog.Spec.Source.Type))}
	}

	isNeeded := f.isRefreshRequested(catalog) || isPollDue(*image, f.stored, f.now, jitterFraction(catalog.UID))
	switch {
	case f.retrieval == pull.None && !isNeeded:
		return &decision{content: f.stored}
	case f.retrieval == pull.None:
		return &decision{action: actionRetrieve, err: reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)}
	case f.retrieval == pull.Running:
		return &decision{err: reconcile.Wait(olmv1.ReasonRetrying, 0, pull.ErrRetrieving)}
	case f.retrievalError != nil:
		return &decision{completesRefresh: fetch.IsContentError(f.retrievalError), err: classifyFailure(catalog, f.retrievalError)}
	default:
		return &decision{completesRefresh: true, content: &f.retrieved}
	}
}

// classifyFailure returns the error of a retrieval with its retry policy. Temporary errors are retried. Invalid
// content is not retried until the next poll, or until the spec changes if polling is disabled.
func classifyFailure(catalog *olmv1.ClusterCatalog, err error) error {
	if !fetch.IsContentError(err) {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if interval := pollInterval(*catalog.Spec.Source.Image); interval > 0 {
		return reconcile.Wait(olmv1.ReasonBlocked, interval+pollJitter(interval, jitterFraction(catalog.UID)), err)
	}
	return reconcile.Stop(olmv1.ReasonBlocked, err)
}

// pollDelay returns the time until the next poll, or zero if polling is disabled.
func pollDelay(catalog *olmv1.ClusterCatalog, f facts, d *decision) time.Duration {
	if d.content == nil {
		return 0
	}

	at := nextPollTime(*catalog.Spec.Source.Image, *d.content, jitterFraction(catalog.UID))
	if at.IsZero() {
		return 0
	}

	return max(at.Sub(f.now), time.Second)
}

// isPollDue reports whether the image must be resolved again: nothing is stored, the stored content belongs
// to another reference, or the next poll is due.
func isPollDue(image olmv1.ImageSource, stored *catalogstore.Info, now time.Time, share float64) bool {
	if stored == nil || stored.Ref != image.Ref {
		return true
	}
	at := nextPollTime(image, *stored, share)
	// Without this check, a clock that was set back would delay the poll by the same time.
	setBack := now.Before(stored.Confirmed.Add(-maxClockSkew))
	return !at.IsZero() && (!now.Before(at) || setBack)
}

// retrievalRequest returns a key of the fields of a catalog that determine its retrieval. A change of the
// key cancels the retrieval in progress.
func retrievalRequest(catalog *olmv1.ClusterCatalog) string {
	image := catalog.Spec.Source.Image
	return fmt.Sprintf("%s %s %v %s", catalog.UID, image.Ref, pollInterval(*image), refreshRequest(catalog))
}

// refreshRequest returns the refresh request of a catalog, or "".
func refreshRequest(catalog *olmv1.ClusterCatalog) string {
	return catalog.Annotations[olmv1.AnnotationRefresh]
}

// maxClockSkew is the maximum time that a clock can be behind without having been set back. Time
// synchronization adjusts clocks gradually by less than that.
const maxClockSkew = time.Minute

// isRefreshRequested reports whether a user has requested a refresh that was not carried out yet. The
// argument carriedOut is the last request that this process has carried out. A request that is older than
// the last confirmation of the stored content was carried out by an earlier process.
func isRefreshRequested(request, carriedOut string, stored *catalogstore.Info) bool {
	at, err := time.Parse(time.RFC3339Nano, request)
	if err != nil || request == carriedOut {
		return false
	}
	return stored == nil || at.After(stored.Confirmed)
}

// pinnedImage returns the image that was resolved from the current spec, if polling is disabled. If its content
// was lost, or if another replica was the leader before, a tag that has moved since must not be followed.
// It returns an empty string if the reference must be resolved.
func pinnedImage(catalog *olmv1.ClusterCatalog) string {
	resolved := catalog.Status.ResolvedSource
	if resolved == nil || resolved.Image == nil || pollInterval(*catalog.Spec.Source.Image) > 0 {
		return ""
	}

	progressing := meta.FindStatusCondition(catalog.Status.Conditions, olmv1.TypeProgressing)
	if progressing == nil || progressing.Reason != olmv1.ReasonSucceeded || progressing.ObservedGeneration != catalog.Generation {
		return ""
	}

	return resolved.Image.Ref
}

// nextPollTime returns the time of the next poll. Zero means that polling is disabled.
func nextPollTime(image olmv1.ImageSource, stored catalogstore.Info, share float64) time.Time {
	interval := pollInterval(image)
	if interval <= 0 {
		return time.Time{}
	}
	return stored.Confirmed.Add(interval + pollJitter(interval, share))
}

// pollInterval returns the poll interval of an image. Zero means that polling is disabled.
func pollInterval(image olmv1.ImageSource) time.Duration {
	if image.PollIntervalMinutes == nil {
		return 0
	}
	return time.Duration(*image.PollIntervalMinutes) * time.Minute
}

// pollJitter returns the time that is added to the poll interval, up to a tenth of it. It spreads the polls of
// catalogs that were created at the same time, and is constant for a catalog.
func pollJitter(interval time.Duration, share float64) time.Duration {
	return time.Duration(float64(interval) * share / 10)
}

// jitterFraction returns the fraction of the maximum jitter for a catalog, from 0 to 1.
func jitterFraction(uid types.UID) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // It never fails.
	return float64(h.Sum32()) / (1 << 32)
}

// conditions are the condition types of a ClusterCatalog.
var conditions = reconcile.Conditions{olmv1.TypeProgressing, olmv1.TypeServing}

// Messages of conditions.
const (
	messageUnpacked    = "Successfully unpacked and stored content from resolved source"
	messageServing     = "Serving desired content from resolved source"
	messageUnavailable = "Catalog availability mode is set to Unavailable"
	messageNothing     = "No content is stored"
)

// setConditions sets the conditions and removes outdated fields from the status. The status does not change
// while a retrieval is in progress.
func (r *Reconciler) setConditions(catalog *olmv1.ClusterCatalog, err error) {
	if errors.Is(err, pull.ErrRetrieving) {
		return
	}

	serves := r.Store.Serves(catalog.Name)
	if !serves {
		catalog.Status.ResolvedSource = nil
		catalog.Status.URLs = nil
		catalog.Status.LastUnpacked = nil
	}

	for _, condition := range []metav1.Condition{newProgressingCondition(catalog, err), newServingCondition(catalog, serves)} {
		conditions.Set(&catalog.Status.Conditions, catalog.Generation, condition)
	}
}

// newProgressingCondition returns the condition Progressing for the result of a reconciliation.
func newProgressingCondition(catalog *olmv1.ClusterCatalog, err error) metav1.Condition {
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

// newServingCondition returns the condition Serving.
func newServingCondition(catalog *olmv1.ClusterCatalog, serves bool) metav1.Condition {
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
