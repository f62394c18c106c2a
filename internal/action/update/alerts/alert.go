package alerts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// MaxBytes limits the size of a response with alerts: some thousands of alerts.
const MaxBytes = 16 << 20

// Labels of alerts that are evaluated.
const (
	labelName     = "alertname"
	labelSeverity = "severity"
	// labelNamespace is the namespace of the object that an alert is about.
	labelNamespace = "namespace"
	// labelPrecheck is "true" for alerts that must be checked before an update.
	labelPrecheck = "openShiftUpdatePrecheck"
)

// Alert is an alert of Prometheus.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// State is firing, or pending while the duration of the rule has not passed.
	State string `json:"state"`
	// Since is when the condition of the alert became true.
	Since time.Time `json:"activeAt"`
}

// Parse parses a response of Prometheus' /api/v1/alerts. It returns the firing alerts,
// sorted by name and then by the other labels.
func Parse(data []byte) ([]Alert, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the list of alerts has more than %d bytes", MaxBytes)
	}

	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Alerts []Alert `json:"alerts"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the list of alerts cannot be read: %w", err)
	}
	if answer.Status != "success" {
		return nil, errors.New(`the list of alerts cannot be read: it has no "status": "success", as what Prometheus answers at /api/v1/alerts`)
	}

	firing := slices.DeleteFunc(answer.Data.Alerts, func(a Alert) bool { return a.State != "firing" })
	slices.SortFunc(firing, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)), a.Since.Compare(b.Since))
	})
	return firing, nil
}

// Name returns the name of the alert, or "unnamed".
func (a *Alert) Name() string { return cmp.Or(sanitizeLine(a.Labels[labelName]), "unnamed") }

// Severity returns the severity of the alert, usually critical, warning or info. It returns
// "unknown" if there is none.
func (a *Alert) Severity() string { return cmp.Or(sanitizeLine(a.Labels[labelSeverity]), "unknown") }

// Summary returns a summary in one line.
func (a *Alert) Summary() string {
	return cmp.Or(sanitizeLine(a.Annotations["summary"]), sanitizeLine(a.Annotations["message"]), sanitizeLine(a.Annotations["description"]), a.Name())
}

// Description returns the details. It is empty if there are none.
func (a *Alert) Description() string {
	return cmp.Or(sanitizeLine(a.Annotations["description"]), sanitizeLine(a.Annotations["message"]))
}

// Reference returns the URL of the runbook. It is empty if there is none.
func (a *Alert) Reference() string {
	link := a.Annotations["runbook_url"]
	if !strings.HasPrefix(link, "https://") && !strings.HasPrefix(link, "http://") {
		return ""
	}
	return sanitizeLine(link)
}

// subjectKinds are the kinds of objects that alerts are about, by the label that contains
// the object's name. The first label of an alert applies, because alerts of a workload may
// also have the label of the pod that exported the metric.
var subjectKinds = []struct {
	label, kind, resource string
	isNamespaced          bool
}{
	{"node", "Node", "nodes", false},
	{"poddisruptionbudget", "PodDisruptionBudget", "poddisruptionbudgets.policy", true},
	{"deployment", "Deployment", "deployments.apps", true},
	{"statefulset", "StatefulSet", "statefulsets.apps", true},
	{"daemonset", "DaemonSet", "daemonsets.apps", true},
	{"job_name", "Job", "jobs.batch", true},
	{"horizontalpodautoscaler", "HorizontalPodAutoscaler", "horizontalpodautoscalers.autoscaling", true},
	{"persistentvolumeclaim", "PersistentVolumeClaim", "persistentvolumeclaims", true},
	{"pod", "Pod", "pods", true},
	{labelNamespace, "Namespace", "namespaces", false},
}

// clusterOperatorPrefix is the prefix of alerts about ClusterOperators. Their label "name"
// contains the name of the object.
const clusterOperatorPrefix = "ClusterOperator"

// findSubject returns the object that the alert is about according to its labels. The name
// is empty if they do not identify an object.
func (a *Alert) findSubject() (kind, resource, namespace, name string) {
	if name := sanitizeLine(a.Labels["name"]); name != "" && strings.HasPrefix(a.Name(), clusterOperatorPrefix) {
		return "ClusterOperator", "clusteroperators.config.openshift.io", "", name
	}

	for _, subject := range subjectKinds {
		name := sanitizeLine(a.Labels[subject.label])
		switch {
		case name == "":
		case subject.isNamespaced:
			return subject.kind, subject.resource, sanitizeLine(a.Labels[labelNamespace]), name
		default:
			return subject.kind, subject.resource, "", name
		}
	}

	return "", "", "", ""
}

// Resource returns the object that the alert is about as resource and name, such as "pods:
// a/b". It is empty if the labels do not identify an object.
func (a *Alert) Resource() string {
	_, resource, namespace, name := a.findSubject()
	switch {
	case name == "":
		return ""
	case namespace != "":
		return resource + ": " + namespace + "/" + name
	}

	return resource + ": " + name
}

// Object returns the object that the alert is about by kind, such as "Namespace=a, Pod=b,
// Container=c". It is empty if the labels do not identify an object.
func (a *Alert) Object() string {
	kind, _, namespace, name := a.findSubject()
	if name == "" {
		return ""
	}

	text := kind + "=" + name
	if namespace != "" {
		text = "Namespace=" + namespace + ", " + text
	}
	if container := sanitizeLine(a.Labels["container"]); container != "" && kind == "Pod" {
		text += ", Container=" + container
	}

	return text
}

// sanitizeLine returns an external text in one line without control characters, which could
// affect a terminal.
func sanitizeLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.Join(strings.Fields(text), " ")
}

// Concern is the reason why an alert matters for a cluster update.
type Concern struct {
	// Check is the name of the failed check, one of Checks.
	Check string
	// Impact is what is affected, in two words.
	Impact string
	// Text is the reason as a part of a sentence.
	Text string
}

// Checks returns the sorted names of all checks.
func Checks() []string {
	return []string{checkCritical, checkNodes, checkBudgets, checkImages, checkPrecheck}
}

const (
	checkCritical = "CriticalAlerts"
	checkNodes    = "NodeAlerts"
	checkBudgets  = "PodDisruptionBudgetAlerts"
	checkImages   = "PodImagePullAlerts"
	checkPrecheck = "UpdatePrecheckAlerts"
)

// severityNone is the severity of alerts that always fire to show that alerting works.
const severityNone = "none"

// IsHeartbeat reports whether the alert always fires to show that alerting works.
func (a *Alert) IsHeartbeat() bool { return a.Severity() == severityNone }

// Concern returns why the alert matters for a cluster update, and whether it does.
func (a *Alert) Concern() (Concern, bool) {
	switch a.Name() {
	case "PodDisruptionBudgetAtLimit", "PodDisruptionBudgetLimit":
		return Concern{checkBudgets, "Update Speed", "which might slow node drains"}, true
	case "KubeContainerWaiting":
		return Concern{checkImages, "API Availability", "which may slow workload redistribution during rolling node updates"}, true
	case "KubeNodeNotReady", "KubeNodeReadinessFlapping", "KubeNodeUnreachable":
		return Concern{checkNodes, "Update Speed", "which may slow workload redistribution during rolling node updates"}, true
	}

	switch {
	case a.Severity() == "critical":
		return Concern{checkCritical, "Unknown", "suggesting significant cluster issues worth investigating"}, true
	case a.Labels[labelPrecheck] == "true":
		return Concern{checkPrecheck, "Unknown", "suggesting issues worth investigating before updating the cluster"}, true
	}

	return Concern{}, false
}
