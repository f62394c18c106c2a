package metrics

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// collectVersion sends the metrics of the ClusterVersion.
func (c *collector) collectVersion(s metricSink, cv *configv1.ClusterVersion) {
	status := c.Worker()
	history := cv.Status.History
	current, completed := cv.Status.Desired, completedEntries(history)
	s.sendGauge(versionDesc, toUnixSeconds(c.Created(current.Image)), "current", current.Version, current.Image, versionOfEntry(completed, 0))
	initial := ""
	if len(history) > 0 {
		first := history[len(history)-1]
		s.sendGauge(versionDesc, toUnixSeconds(cv.CreationTimestamp), "initial", first.Version, first.Image, "")
		if len(completed) > 0 {
			initial = first.Version
		}
	}

	s.sendGauge(versionDesc, toUnixSeconds(cv.CreationTimestamp), "cluster", current.Version, current.Image, initial)
	if len(completed) > 0 && completed[0].CompletionTime != nil {
		s.sendGauge(versionDesc, toUnixSeconds(*completed[0].CompletionTime), "completed", completed[0].Version, completed[0].Image, versionOfEntry(completed, 1))
	}
	if wanted := cv.Spec.DesiredUpdate; wanted != nil && wanted.Image != "" && wanted.Image != current.Image {
		s.sendGauge(versionDesc, toUnixSeconds(latestStatusTime(cv)), "desired", wanted.Version, wanted.Image, versionOfEntry(completed, 0))
	}
	if len(history) > 0 && history[0].State == configv1.PartialUpdate {
		s.sendGauge(versionDesc, toUnixSeconds(history[0].StartedTime), "updating", history[0].Version, history[0].Image, versionOfEntry(completed, 0))
	}

	for _, condition := range cv.Status.Conditions {
		if condition.Type == configv1.ClusterVersionFailing && condition.Status == metav1.ConditionTrue {
			s.sendGauge(versionDesc, toUnixSeconds(condition.LastTransitionTime), "failure", current.Version, current.Image, versionOfEntry(completed, 0))
		}
	}

	s.sendGauge(retrievedDesc, toUnixSeconds(metav1.NewTime(c.Retrieved())), "")
	collectUpdates(s, cv)
	collectConditions(s, configv1.ClusterVersionName, current.Version, cv.Status.Conditions)
	for _, known := range cv.Status.Capabilities.KnownCapabilities {
		s.sendGauge(capabilityDesc, boolToFloat(slices.Contains(cv.Status.Capabilities.EnabledCapabilities, known)), string(known))
	}

	if status.Total > 0 {
		s.sendGauge(payloadDesc, float64(status.Total-status.Done), status.Actual.Version, "pending")
		s.sendGauge(payloadDesc, float64(status.Done), status.Actual.Version, "applied")
		s.sendCounter(errorsDesc, float64(status.Errors), status.Actual.Version)
	}
}

func boolToFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func completedEntries(history []configv1.UpdateHistory) []configv1.UpdateHistory {
	var completed []configv1.UpdateHistory
	for _, entry := range history {
		if entry.State == configv1.CompletedUpdate {
			completed = append(completed, entry)
		}
	}
	return completed
}

func versionOfEntry(history []configv1.UpdateHistory, i int) string {
	if i >= len(history) {
		return ""
	}
	return history[i].Version
}

// latestStatusTime returns the latest timestamp in the status.
func latestStatusTime(cv *configv1.ClusterVersion) metav1.Time {
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

// collectUpdates sends the metrics of available and conditional updates.
func collectUpdates(s metricSink, cv *configv1.ClusterVersion) {
	isRetrieved := slices.ContainsFunc(cv.Status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool {
		return c.Type == configv1.ClusterVersionRetrievedUpdates && c.Status == metav1.ConditionTrue
	})
	if cv.Spec.Upstream != "" || len(cv.Status.AvailableUpdates) > 0 || isRetrieved {
		upstream := cv.Spec.Upstream
		if upstream == "" {
			upstream = "<default>"
		}
		s.sendGauge(availableDesc, float64(len(cv.Status.AvailableUpdates)), upstream, cv.Spec.Channel)
	}

	for _, update := range cv.Status.ConditionalUpdates {
		for _, condition := range update.Conditions {
			s.sendGauge(conditionalDesc, toUnixSeconds(condition.LastTransitionTime), update.Release.Version, condition.Type, string(condition.Status), condition.Reason)
		}
	}

	for _, risk := range cv.Status.ConditionalUpdateRisks {
		for _, condition := range risk.Conditions {
			value := boolToFloat(condition.Status == metav1.ConditionTrue)
			if condition.Status == metav1.ConditionUnknown {
				value = -1
			}
			s.sendGauge(riskDesc, value, condition.Type, risk.Name, condition.Reason)
		}
	}
}

// reasonNoAvailable is the reason of an operator without an Available condition.
const reasonNoAvailable = "NoAvailableCondition"

// collectConditions sends the metrics of the conditions of an operator, or of the
// ClusterVersion.
func collectConditions(s metricSink, name, version string, conditions []configv1.ClusterOperatorStatusCondition) {
	up, reason := 0.0, reasonNoAvailable
	for _, condition := range conditions {
		if condition.Type == configv1.OperatorAvailable {
			up, reason = boolToFloat(condition.Status == metav1.ConditionTrue), condition.Reason
		}
		if condition.Status != metav1.ConditionUnknown {
			s.sendGauge(conditionDesc, boolToFloat(condition.Status == metav1.ConditionTrue), name, condition.Type, condition.Reason)
		}
	}

	s.sendGauge(upDesc, up, name, version, reason)
}

func collectOperator(s metricSink, operator *configv1.ClusterOperator) {
	version := ""
	for _, v := range operator.Status.Versions {
		if v.Name == "operator" {
			version = v.Version
		}
	}
	collectConditions(s, operator.Name, version, operator.Status.Conditions)
}
