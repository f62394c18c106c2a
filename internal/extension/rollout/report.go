package rollout

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// conditions of a ClusterObjectSet, in the order in which they are listed.
var conditions = reconcile.Conditions{olmv1.TypeProgressing, olmv1.TypeAvailable, olmv1.TypeSucceeded}

// outcome is what an attempt came to.
type outcome struct {
	// err ended the attempt; nil when all was done.
	err error
	// applied is what became of the objects; nil when none was touched.
	applied *apply.RevisionResult
	// late: the progress deadline has passed before the first success.
	late bool
}

// report writes the outcome into the status.
func report(set *olmv1.ClusterObjectSet, o outcome) {
	if o.err == nil && o.applied != nil && o.applied.Done() && !isSucceeded(set) {
		setCondition(set, metav1.Condition{
			Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded,
			Message: "The revision was rolled out completely",
		})
	}

	setCondition(set, progressing(set, o))
	setCondition(set, available(set, o))
}

func setCondition(set *olmv1.ClusterObjectSet, condition metav1.Condition) {
	conditions.Set(&set.Status.Conditions, set.Generation, condition)
}

// progressing says how the roll-out, or the removal, goes.
func progressing(set *olmv1.ClusterObjectSet, o outcome) metav1.Condition {
	c := metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded}
	waits := o.err != nil && reconcile.IsWait(o.err) && o.applied != nil
	switch {
	case o.err == nil && isGivingUp(set):
		c.Status, c.Reason = metav1.ConditionFalse, olmv1.ReasonArchived
		c.Message = "The revision is archived: its objects are removed, except those that a later revision has taken over"
	case o.err == nil, waits && isSucceeded(set):
		c.Message = rolledOut(o.applied)
	case reconcile.IsStop(o.err):
		c.Status, c.Reason = metav1.ConditionFalse, reconcile.ReasonOf(o.err, olmv1.ReasonBlocked)
		c.Message = o.err.Error()
	case o.late && !isGivingUp(set):
		c.Status, c.Reason = metav1.ConditionFalse, olmv1.ReasonProgressDeadlineExceeded
		c.Message = fmt.Sprintf("Revision has not rolled out for %d minute(s). Last status: %s", *set.Spec.ProgressDeadlineMinutes, o.err)
	default:
		c.Reason, c.Message = reconcile.ReasonOf(o.err, olmv1.ReasonRetrying), o.err.Error()
	}

	return c
}

func rolledOut(applied *apply.RevisionResult) string {
	message := fmt.Sprintf("All objects are rolled out: %s in %s", amount(applied.Objects(), "object"), amount(applied.Total, "phase"))
	if superseded := applied.Superseded(); superseded > 0 {
		message += fmt.Sprintf(", of which a later revision has taken over %d", superseded)
	}
	return message
}

// available reports whether the objects pass their probes.
func available(set *olmv1.ClusterObjectSet, o outcome) metav1.Condition {
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
		c.Message = "All objects pass their probes: " + amount(o.applied.Objects(), "object")
	}

	return c
}

func amount(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}
