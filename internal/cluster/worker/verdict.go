package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Durations after which waiting for a ClusterOperator is reported as a problem.
const (
	slowOperatorTimeout      = 30 * time.Minute
	slowMachineConfigTimeout = 90 * time.Minute
	degradedOperatorTimeout  = 40 * time.Minute
)

// machineConfigOperator is the ClusterOperator that waits for nodes to restart.
const machineConfigOperator = "machine-config"

// Verdict is what a Failure means for the conditions of the ClusterVersion.
type Verdict struct {
	// Failing is the status of the Failing condition.
	Failing metav1.ConditionStatus
	// Reason and Message belong to Failing. Both are empty when Failing is False.
	Reason, Message string
	// ProgressingReason is the reason of the Progressing condition.
	ProgressingReason string
	// Waiting is what the Progressing message says after the counter, such as "waiting on etcd".
	// It is empty when Failing is True.
	Waiting string
	// Summary is what the Progressing message says instead of the counter when Failing is True.
	Summary string
}

// Judge returns what the Failure means for the conditions at a point in time.
func (s Status) Judge(now time.Time) Verdict {
	if s.Failure == nil {
		return Verdict{Failing: metav1.ConditionFalse}
	}

	judged := toWorkerError(s.Failure)
	if !s.Reconciling {
		judged = dropAwaitedErrors(judged)
	}

	failing := Verdict{
		Failing: metav1.ConditionTrue, Reason: judged.Reason, Message: judged.Message,
		ProgressingReason: judged.Reason, Summary: summarizeError(judged),
	}
	if s.Reconciling {
		return failing
	}

	switch judged.Effect {
	case EffectNone:
		return judgeUpdatingOperators(judged, s.Waiting, now)
	case EffectFailAfterInterval:
		late := overdueOperators(judged.Names, s.Waiting, now, func(string) time.Duration { return degradedOperatorTimeout })
		if len(late) == 0 {
			return Verdict{
				Failing: metav1.ConditionFalse, ProgressingReason: judged.Reason,
				Waiting: "waiting up to 40 minutes on " + strings.Join(judged.Names, ", "),
			}
		}
		failing.Summary = "wait has exceeded 40 minutes for these operators: " + strings.Join(late, ", ")
	}

	return failing
}

// dropAwaitedErrors removes the members with EffectNone from several errors, because they only
// wait.
func dropAwaitedErrors(failure *Error) *Error {
	var joined interface{ Unwrap() []error }
	if failure.Reason != ReasonMultiple || !errors.As(failure.Err, &joined) {
		return failure
	}

	var left []*Error
	for _, err := range joined.Unwrap() {
		if member := toWorkerError(err); member.Effect != EffectNone {
			left = append(left, member)
		}
	}

	switch len(left) {
	case 0:
		return failure
	case 1:
		return left[0]
	}

	return newMultipleError(left)
}

// judgeUpdatingOperators returns the verdict for operators that are not at their version yet.
func judgeUpdatingOperators(failure *Error, since map[string]time.Time, now time.Time) Verdict {
	late := overdueOperators(failure.Names, since, now, func(name string) time.Duration {
		if name == machineConfigOperator {
			return slowMachineConfigTimeout
		}
		return slowOperatorTimeout
	})

	if len(late) == 0 {
		return Verdict{
			Failing: metav1.ConditionFalse, ProgressingReason: failure.Reason,
			Waiting: "waiting on " + strings.Join(failure.Names, ", "),
		}
	}

	var parts, others []string
	isMachineConfig := false
	for _, name := range late {
		if name == machineConfigOperator {
			isMachineConfig = true
		} else {
			others = append(others, name)
		}
	}

	if len(others) > 0 {
		parts = append(parts, strings.Join(others, ", ")+" over 30 minutes")
	}
	if isMachineConfig {
		parts = append(parts, machineConfigOperator+" over 90 minutes")
	}

	waiting := fmt.Sprintf("waiting on %s which is longer than expected", strings.Join(parts, " and "))
	return Verdict{
		Failing: metav1.ConditionUnknown, Reason: ReasonSlowOperator, Message: waiting,
		ProgressingReason: failure.Reason, Waiting: waiting,
	}
}

// overdueOperators returns the names whose wait is longer than its limit.
func overdueOperators(names []string, since map[string]time.Time, now time.Time, limit func(name string) time.Duration) []string {
	var late []string
	for _, name := range names {
		if began := since[name]; !began.IsZero() && now.Sub(began) > limit(name) {
			late = append(late, name)
		}
	}
	return late
}

// reasonSummaries are short texts by reason. %s is replaced by the names that the error is
// about.
var reasonSummaries = map[string]string{
	ReasonNotFound:                   "some resources could not be updated",
	ReasonConflict:                   "some resources could not be updated",
	ReasonClusterDown:                "the control plane is down or not responding",
	ReasonClusterError:               "the control plane is reporting an internal error",
	ReasonOverloaded:                 "the control plane is overloaded and is not accepting updates",
	ReasonUnauthorized:               "could not authenticate to the server",
	ReasonForbidden:                  "the server is rejecting updates",
	ReasonTypeMissing:                "a required extension is not available to update",
	ReasonInvalid:                    "some cluster configuration is invalid",
	"UpdatePayloadRetrievalFailed":   "could not download the update",
	"UpdatePayloadIntegrity":         "the contents of the update are invalid",
	"ImageVerificationFailed":        "the image may not be safe to use",
	"UpgradePreconditionCheckFailed": "it may not be safe to apply this update",
	ReasonOperatorDegraded:           "the cluster operator %s is degraded",
	ReasonOperatorNotAvailable:       "the cluster operator %s is not available",
	"ClusterOperatorsNotAvailable":   "some cluster operators are not available",
	ReasonOperatorNoVersions:         "the cluster operator %s does not declare expected versions",
	ReasonWorkloadNotAvailable:       "the workload %s has not yet successfully rolled out",
	ReasonWorkloadNotProgressing:     "the workload %s cannot roll out",
}

func summarizeError(failure *Error) string {
	return Summary(failure.Reason, strings.Join(failure.Names, ", "))
}

// Summary returns a short text for the reason of an error and the name that it is about.
func Summary(reason, name string) string {
	text, ok := reasonSummaries[reason]
	switch {
	case ok && strings.Contains(text, "%s"):
		return fmt.Sprintf(text, name)
	case ok:
		return text
	case strings.HasPrefix(reason, "UpdatePayload"):
		return "the update could not be applied"
	case name == "":
		return "an unknown error has occurred: " + reason
	default:
		return fmt.Sprintf("%s has an unknown error: %s", name, reason)
	}
}
