package metrics

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// collectVersion tells of the ClusterVersion.
func (c *collector) collectVersion(s sink, cv *configv1.ClusterVersion) {
	status := c.Worker()
	history := cv.Status.History
	current, completed := cv.Status.Desired, completedOf(history)
	s.gauge(versionDesc, seconds(c.Created(current.Image)), "current", current.Version, current.Image, versionAt(completed, 0))
	initial := ""
	if len(history) > 0 {
		first := history[len(history)-1]
		s.gauge(versionDesc, seconds(cv.CreationTimestamp), "initial", first.Version, first.Image, "")
		if len(completed) > 0 {
			initial = first.Version
		}
	}

	s.gauge(versionDesc, seconds(cv.CreationTimestamp), "cluster", current.Version, current.Image, initial)
	if len(completed) > 0 && completed[0].CompletionTime != nil {
		s.gauge(versionDesc, seconds(*completed[0].CompletionTime), "completed", completed[0].Version, completed[0].Image, versionAt(completed, 1))
	}
	if wanted := cv.Spec.DesiredUpdate; wanted != nil && wanted.Image != "" && wanted.Image != current.Image {
		s.gauge(versionDesc, seconds(newest(cv)), "desired", wanted.Version, wanted.Image, versionAt(completed, 0))
	}
	if len(history) > 0 && history[0].State == configv1.PartialUpdate {
		s.gauge(versionDesc, seconds(history[0].StartedTime), "updating", history[0].Version, history[0].Image, versionAt(completed, 0))
	}

	for _, condition := range cv.Status.Conditions {
		if condition.Type == configv1.ClusterVersionFailing && condition.Status == metav1.ConditionTrue {
			s.gauge(versionDesc, seconds(condition.LastTransitionTime), "failure", current.Version, current.Image, versionAt(completed, 0))
		}
	}

	s.gauge(retrievedDesc, seconds(metav1.NewTime(c.Retrieved())), "")
	collectUpdates(s, cv)
	collectConditions(s, configv1.ClusterVersionName, current.Version, cv.Status.Conditions)
	for _, known := range cv.Status.Capabilities.KnownCapabilities {
		s.gauge(capabilityDesc, truth(slices.Contains(cv.Status.Capabilities.EnabledCapabilities, known)), string(known))
	}

	if status.Total > 0 {
		s.gauge(payloadDesc, float64(status.Total-status.Done), status.Actual.Version, "pending")
		s.gauge(payloadDesc, float64(status.Done), status.Actual.Version, "applied")
		s.counter(errorsDesc, float64(status.Errors), status.Actual.Version)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func completedOf(history []configv1.UpdateHistory) []configv1.UpdateHistory {
	var completed []configv1.UpdateHistory
	for _, entry := range history {
		if entry.State == configv1.CompletedUpdate {
			completed = append(completed, entry)
		}
	}
	return completed
}

func versionAt(history []configv1.UpdateHistory, i int) string {
	if i >= len(history) {
		return ""
	}
	return history[i].Version
}

// newest is the newest time in the status.
func newest(cv *configv1.ClusterVersion) metav1.Time {
	last := cv.CreationTimestamp
	for _, condition := range cv.Status.Conditions {
		if last.Before(&condition.LastTransitionTime) {
			last = condition.LastTransitionTime
		}
	}

	for _, entry := range cv.Status.History {
		if last.Before(&entry.StartedTime) {
			last = entry.StartedTime
		}
		if entry.CompletionTime != nil && last.Before(entry.CompletionTime) {
			last = *entry.CompletionTime
		}
	}

	return last
}

// collectUpdates tells of the updates that there are.
func collectUpdates(s sink, cv *configv1.ClusterVersion) {
	isRetrieved := slices.ContainsFunc(cv.Status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool {
		return c.Type == configv1.ClusterVersionRetrievedUpdates && c.Status == metav1.ConditionTrue
	})
	if cv.Spec.Upstream != "" || len(cv.Status.AvailableUpdates) > 0 || isRetrieved {
		upstream := cv.Spec.Upstream
		if upstream == "" {
			upstream = "<default>"
		}
		s.gauge(availableDesc, float64(len(cv.Status.AvailableUpdates)), upstream, cv.Spec.Channel)
	}

	for _, update := range cv.Status.ConditionalUpdates {
		for _, condition := range update.Conditions {
			s.gauge(conditionalDesc, seconds(condition.LastTransitionTime), update.Release.Version, condition.Type, string(condition.Status), condition.Reason)
		}
	}

	for _, risk := range cv.Status.ConditionalUpdateRisks {
		for _, condition := range risk.Conditions {
			value := truth(condition.Status == metav1.ConditionTrue)
			if condition.Status == metav1.ConditionUnknown {
				value = -1
			}
			s.gauge(riskDesc, value, condition.Type, risk.Name, condition.Reason)
		}
	}
}

// reasonNoAvailable is the reason of a part that does not say whether it is available.
const reasonNoAvailable = "NoAvailableCondition"

// collectConditions tells of the conditions of a part of the cluster.
func collectConditions(s sink, name, version string, conditions []configv1.ClusterOperatorStatusCondition) {
	up, reason := 0.0, reasonNoAvailable
	for _, condition := range conditions {
		if condition.Type == configv1.OperatorAvailable {
			up, reason = truth(condition.Status == metav1.ConditionTrue), condition.Reason
		}
		if condition.Status != metav1.ConditionUnknown {
			s.gauge(conditionDesc, truth(condition.Status == metav1.ConditionTrue), name, condition.Type, condition.Reason)
		}
	}

	s.gauge(upDesc, up, name, version, reason)
}

func collectOperator(s sink, operator *configv1.ClusterOperator) {
	version := ""
	for _, v := range operator.Status.Versions {
		if v.Name == "operator" {
			version = v.Version
		}
	}
	collectConditions(s, operator.Name, version, operator.Status.Conditions)
}
