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

// MaxBytes is how long an answer with alerts may be: some thousands of alerts.
const MaxBytes = 16 << 20

// Labels by which alerts are judged.
const (
	labelName     = "alertname"
	labelSeverity = "severity"
	// labelNamespace is that of the object that an alert is about.
	labelNamespace = "namespace"
	// labelPrecheck is set to "true" on alerts that are to be looked at before an update.
	labelPrecheck = "openShiftUpdatePrecheck"
)

// Alert is one that fires.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// State is firing, or pending while it is too early to tell people.
	State string `json:"state"`
	// Since is when its condition began to hold.
	Since time.Time `json:"activeAt"`
}

// Parse reads the answer of Prometheus' /api/v1/alerts, and gives those that fire, in a fixed
// order: by name, then by the other labels.
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

// Name of the alert.
func (a *Alert) Name() string { return cmp.Or(oneLine(a.Labels[labelName]), "unnamed") }

// Severity is critical, warning, info or what its rule says; "unknown" when it says none.
func (a *Alert) Severity() string { return cmp.Or(oneLine(a.Labels[labelSeverity]), "unknown") }

// Sentence says in a line what is the matter.
func (a *Alert) Sentence() string {
	return cmp.Or(oneLine(a.Annotations["summary"]), oneLine(a.Annotations["message"]), oneLine(a.Annotations["description"]), a.Name())
}

// Description has the details; empty for none.
func (a *Alert) Description() string {
	return cmp.Or(oneLine(a.Annotations["description"]), oneLine(a.Annotations["message"]))
}

// Reference leads to a page that says what to do; empty for none.
func (a *Alert) Reference() string {
	link := a.Annotations["runbook_url"]
	if !strings.HasPrefix(link, "https://") && !strings.HasPrefix(link, "http://") {
		return ""
	}
	return oneLine(link)
}

// subjects are the kinds of objects that alerts are about, by the label that names the object. An
// alert is about the first that it has: alerts of a workload may also name the pod that measured it.
var subjects = []struct {
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

// clusterOperatorPrefix begins the names of alerts about ClusterOperators, which "name" names.
const clusterOperatorPrefix = "ClusterOperator"

// subject returns what the alert is about, as far as its labels say. The name is empty when they do
// not.
func (a *Alert) subject() (kind, resource, namespace, name string) {
	if name := oneLine(a.Labels["name"]); name != "" && strings.HasPrefix(a.Name(), clusterOperatorPrefix) {
		return "ClusterOperator", "clusteroperators.config.openshift.io", "", name
	}

	for _, subject := range subjects {
		name := oneLine(a.Labels[subject.label])
		switch {
		case name == "":
		case subject.isNamespaced:
			return subject.kind, subject.resource, oneLine(a.Labels[labelNamespace]), name
		default:
			return subject.kind, subject.resource, "", name
		}
	}

	return "", "", "", ""
}

// Resource returns the object that the alert is about as resource and name, as in "pods: a/b". It is
// empty when the labels do not say.
func (a *Alert) Resource() string {
	_, resource, namespace, name := a.subject()
	switch {
	case name == "":
		return ""
	case namespace != "":
		return resource + ": " + namespace + "/" + name
	}

	return resource + ": " + name
}

// Object returns the object that the alert is about by its kind, as in "Namespace=a, Pod=b,
// Container=c". It is empty when the labels do not say.
func (a *Alert) Object() string {
	kind, _, namespace, name := a.subject()
	if name == "" {
		return ""
	}

	text := kind + "=" + name
	if namespace != "" {
		text = "Namespace=" + namespace + ", " + text
	}
	if container := oneLine(a.Labels["container"]); container != "" && kind == "Pod" {
		text += ", Container=" + container
	}

	return text
}

// oneLine makes a line of a text from outside, without what would act on a terminal.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.Join(strings.Fields(text), " ")
}

// Concern is why an alert matters to who updates the cluster.
type Concern struct {
	// Check is the name of the check that it fails, one of Checks.
	Check string
	// Impact is what it harms, in two words.
	Impact string
	// Text says so in a part of a sentence.
	Text string
}

// Checks are the names of all checks, sorted.
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

// severityNone is that of alerts that always fire, to show that alerts work.
const severityNone = "none"

// IsHeartbeat reports whether the alert only shows that alerts work.
func (a *Alert) IsHeartbeat() bool { return a.Severity() == severityNone }

// Concern tells why the alert matters to who updates the cluster, and whether it does.
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
