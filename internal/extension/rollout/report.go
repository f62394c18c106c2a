package rollout

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// conditions are the condition types of a ClusterObjectSet, in the order in which they are listed.
var conditions = reconcile.Conditions{olmv1.TypeProgressing, olmv1.TypeAvailable, olmv1.TypeSucceeded}

// outcome is the result of an attempt.
type outcome struct {
	// err is the error that ended the attempt, or nil.
	err error
	// applied is the result for the objects. It is nil if none was applied.
	applied *apply.RevisionResult
	// deadlineExceeded reports whether the progress deadline has passed before the first complete
	// rollout.
	deadlineExceeded bool
}

// reportOutcome writes the outcome of a pass to the status.
func (r *reconciler) reportOutcome(set *olmv1.ClusterObjectSet, _ facts, d *decision, err error) []reconcile.Event {
	o := outcome{err: err, deadlineExceeded: r.schedule.isDeadlineExceeded(set)}
	if d != nil {
		o.applied = d.applied
		if len(d.observed) > 0 {
			set.Status.ObservedPhases = d.observed
		}
	}
	reportStatus(set, o)

	return nil
}

// reportDeletion writes to the status why a revision cannot be removed yet.
func (r *reconciler) reportDeletion(set *olmv1.ClusterObjectSet, err error) {
	reportStatus(set, outcome{err: err, deadlineExceeded: r.schedule.isDeadlineExceeded(set)})
}

// reportStatus writes the outcome to the status.
func reportStatus(set *olmv1.ClusterObjectSet, o outcome) {
	if o.err == nil && o.applied != nil && o.applied.Done() && !hasSucceeded(set) {
		setCondition(set, metav1.Condition{
			Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded,
			Message: "The revision was rolled out completely",
		})
	}

	setCondition(set, newProgressingCondition(set, o))
	setCondition(set, newAvailableCondition(set, o))
}

func setCondition(set *olmv1.ClusterObjectSet, condition metav1.Condition) {
	conditions.Set(&set.Status.Conditions, set.Generation, condition)
}

// newProgressingCondition returns the condition Progressing of a rollout or a removal.
func newProgressingCondition(set *olmv1.ClusterObjectSet, o outcome) metav1.Condition {
	c := metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded}
	waits := o.err != nil && reconcile.IsWait(o.err) && o.applied != nil
	switch {
	case o.err == nil && isInactiveRevision(set):
		c.Status, c.Reason = metav1.ConditionFalse, olmv1.ReasonArchived
		c.Message = "The revision is archived: its objects are removed, except those that a later revision has taken over"
	case o.err == nil, waits && hasSucceeded(set):
		c.Message = rolledOutMessage(o.applied)
	case reconcile.IsStop(o.err):
		c.Status, c.Reason = metav1.ConditionFalse, reconcile.ReasonOf(o.err, olmv1.ReasonBlocked)
		c.Message = o.err.Error()
	case o.deadlineExceeded && !isInactiveRevision(set):
		c.Status, c.Reason = metav1.ConditionFalse, olmv1.ReasonProgressDeadlineExceeded
		c.Message = fmt.Sprintf("Revision has not rolled out for %d minute(s). Last status: %s", *set.Spec.ProgressDeadlineMinutes, o.err)
	default:
		c.Reason, c.Message = reconcile.ReasonOf(o.err, olmv1.ReasonRetrying), o.err.Error()
	}

	return c
}

func rolledOutMessage(applied *apply.RevisionResult) string {
	message := fmt.Sprintf("All objects are rolled out: %s in %s", pluralizeCount(applied.Objects(), "object"), pluralizeCount(applied.Total, "phase"))
	if superseded := applied.Superseded(); superseded > 0 {
		message += fmt.Sprintf(", of which a later revision has taken over %d", superseded)
	}
	return message
}

// newAvailableCondition returns the condition Available, which states whether the objects pass
// their probes.
func newAvailableCondition(set *olmv1.ClusterObjectSet, o outcome) metav1.Condition {
	c := metav1.Condition{Type: olmv1.TypeAvailable, Status: metav1.ConditionUnknown, Reason: olmv1.ReasonReconciling}
	switch {
	case set.Spec.LifecycleState == olmv1.LifecycleStateArchived:
		c.Reason, c.Message = olmv1.ReasonArchived, "The revision is archived"
	case !set.DeletionTimestamp.IsZero():
		c.Message = "The revision is being removed"
	case o.applied == nil:
		c.Message = "The objects were not looked at: " + o.err.Error()
	case o.applied.Waiting() != "":
		c.Status, c.Reason = metav1.ConditionFalse, olmv1.ReasonProbeFailure
		c.Message = o.applied.Waiting()
	case o.applied.Err() != nil:
		c.Message = o.applied.Err().Error()
	case len(o.applied.Phases) < o.applied.Total:
		c.Message = "Not every object is rolled out yet"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, olmv1.ReasonProbesSucceeded
		c.Message = "All objects pass their probes: " + pluralizeCount(o.applied.Objects(), "object")
	}

	return c
}

func pluralizeCount(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}
