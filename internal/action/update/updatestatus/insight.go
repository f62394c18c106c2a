package updatestatus

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/alerts"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// Level is the severity of an insight.
type Level string

// Levels, the most severe first.
const (
	Error   Level = "Error"
	Warning Level = "Warning"
	Info    Level = "Info"
)

// severityOrder is the sort order of levels.
var severityOrder = map[Level]int{Error: 0, Warning: 1, Info: 2}

// Insight is a fact that needs attention while the cluster is updated.
type Insight struct {
	// Since is when it started. It is zero if that is unknown.
	Since time.Time `json:"since,omitzero"`
	// Level is the severity.
	Level Level `json:"level"`
	// Impact is what is affected.
	Impact string `json:"impact"`
	// Message describes the insight in one sentence.
	Message string `json:"message"`
	// Reference is the URL of a page with advice. It is empty if there is none.
	Reference string `json:"reference,omitempty"`
	// Resource is the affected object, such as clusteroperators.config.openshift.io: dns.
	Resource string `json:"resource,omitempty"`
	// Description contains the details.
	Description string `json:"description,omitempty"`
}

// compareInsights sorts the most severe insights first, then the newest first.
func compareInsights(a, b Insight) int {
	return cmp.Or(cmp.Compare(severityOrder[a.Level], severityOrder[b.Level]), b.Since.Compare(a.Since))
}

// unhealthyConditions are the conditions of operators that need attention, and the
// durations after which they become a warning and an error.
var unhealthyConditions = []struct {
	condition string
	bad       metav1.ConditionStatus
	text      string
	warning   time.Duration
	failure   time.Duration
}{
	{configv1.OperatorAvailable, metav1.ConditionFalse, "unavailable", 5 * time.Minute, 20 * time.Minute},
	{configv1.OperatorDegraded, metav1.ConditionTrue, "degraded", 5 * time.Minute, 40 * time.Minute},
}

// operatorInsights returns the insights about unhealthy operators.
func operatorInsights(operators []configv1.ClusterOperator, now time.Time) []Insight {
	var found []Insight
	for i := range operators {
		o := &operators[i]
		for _, ailment := range unhealthyConditions {
			c := configv1.FindCondition(o.Status.Conditions, ailment.condition)
			if c == nil || c.Status != ailment.bad || now.Sub(c.LastTransitionTime.Time) < ailment.warning {
				continue
			}

			insight := Insight{
				Since: c.LastTransitionTime.Time, Level: Warning, Impact: "API Availability",
				Message:  fmt.Sprintf("Cluster Operator %s is %s (%s)", o.Name, ailment.text, cmp.Or(c.Reason, "no reason given")),
				Resource: "clusteroperators.config.openshift.io: " + o.Name, Description: c.Message,
			}
			if now.Sub(insight.Since) >= ailment.failure {
				insight.Level = Error
			}

			found = append(found, insight)
			break // an unavailable operator is usually degraded too
		}
	}

	return found
}

// clusterVersionInsights returns the insights about the ClusterVersion: a failing update,
// and a previous update that never completed.
func clusterVersionInsights(cv *configv1.ClusterVersion) []Insight {
	const resource = "clusterversions.config.openshift.io: " + configv1.ClusterVersionName
	var found []Insight
	if c := configv1.FindCondition(cv.Status.Conditions, configv1.ClusterVersionFailing); c != nil && c.Status != metav1.ConditionFalse {
		verb := "is failing"
		if c.Status == metav1.ConditionUnknown {
			verb = "may be failing"
		}
		found = append(found, Insight{
			Since: c.LastTransitionTime.Time, Level: Warning, Impact: "Update Stalled",
			Message:  fmt.Sprintf("Cluster Version %s %s to proceed with the update (%s)", cv.Name, verb, cmp.Or(c.Reason, "no reason given")),
			Resource: resource, Description: c.Message,
		})
	}

	if history := cv.Status.History; len(history) > 1 && history[1].State == configv1.PartialUpdate {
		last := "none"
		for _, entry := range history[1:] {
			if entry.State == configv1.CompletedUpdate {
				last = describeRelease(entry)
				break
			}
		}
		found = append(found, Insight{
			Since: history[0].StartedTime.Time, Level: Warning, Impact: "None",
			Message:  fmt.Sprintf("Previous update to %s never completed, last complete update was %s", describeRelease(history[1]), last),
			Resource: resource,
		})
	}

	return found
}

// poolInsights returns the insights about nodes that delay the update or are excluded from
// it.
func poolInsights(s *Status) []Insight {
	all := s.WorkerPools
	if s.ControlPlaneNodes != nil {
		all = append([]Pool{*s.ControlPlaneNodes}, all...)
	}

	var found []Insight
	for _, pool := range all {
		for _, node := range pool.Nodes {
			about := Insight{Since: node.NotReadySince, Impact: "Update Stalled", Resource: "nodes: " + node.Name, Description: node.Message}
			switch {
			case node.Assessment == pools.AssessedDegraded:
				about.Level, about.Message = Error, fmt.Sprintf("Node %s is degraded", node.Name)
			case node.DrainBlocked:
				about.Level, about.Since, about.Message = Warning, node.DrainingSince, fmt.Sprintf("Node %s is not drained: %s", node.Name, node.Message)
			case node.Assessment == pools.AssessedUnavailable:
				about.Level, about.Impact, about.Message = Warning, "Update Speed", fmt.Sprintf("Node %s is unavailable", node.Name)
				if node.NotReady && node.Message != "" {
					about.Message = fmt.Sprintf("Node %s is %s", node.Name, node.Message)
				}
			default:
				continue
			}
			found = append(found, about)
		}
		if pool.Excluded > 0 {
			found = append(found, Insight{
				Level: Warning, Impact: "Update Stalled", Resource: "machineconfigpools.machineconfiguration.openshift.io: " + pool.Name,
				Message:     fmt.Sprintf("Outdated nodes in a paused pool '%s' will not be updated", pool.Name),
				Description: fmt.Sprintf("Pool %s is paused, which stops all changes to its nodes. Resume it with 'mainstay nodes resume %s'.", pool.Name, pool.Name),
			})
		}
	}

	return found
}

// alertInsights returns the insights about alerts that matter during an update.
func alertInsights(firing []alerts.Alert) []Insight {
	var found []Insight
	for _, alert := range firing {
		concern, ok := alert.Concern()
		if !ok {
			continue
		}

		insight := Insight{
			Since: alert.Since, Level: Info, Impact: concern.Impact, Message: "Alert: " + alert.Summary(), Resource: alert.Resource(),
			Reference: alert.Reference(), Description: alert.Description(),
		}
		switch alert.Severity() {
		case "critical":
			insight.Level = Error
		case "warning":
			insight.Level = Warning
		}

		found = append(found, insight)
	}

	return found
}
