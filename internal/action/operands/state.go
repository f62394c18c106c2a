package operands

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OperandCondition is a condition of an object. Custom resources may omit most of its fields.
type OperandCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// LastTransitionTime is omitted if it is no time.
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
}

// readyConditions are the types of conditions that say that an object works. Any other value than True needs a reason.
var readyConditions = map[string]bool{"Ready": true, "Available": true, "Succeeded": true, "Healthy": true}

// problemConditions are the types of conditions that are a problem while they are True.
var problemConditions = map[string]bool{"Failed": true, "Degraded": true, "Error": true, "Failure": true, "Stalled": true}

// stateOf returns the state of an object in words, and what it says about a problem: the first of status.phase, status.status,
// status.state and the conditions that are True.
func stateOf(object *unstructured.Unstructured) (state, message string) {
	conditions := readConditions(object)
	for _, c := range conditions {
		isProblem := (readyConditions[c.Type] && c.Status != "True") || (problemConditions[c.Type] && c.Status == "True")
		if isProblem && message == "" {
			message = strings.TrimSpace(c.Reason + ": " + c.Message)
			message = strings.Trim(message, ": ")
		}
	}
	if object.GetDeletionTimestamp() != nil {
		return "Deleting", message
	}

	for _, name := range []string{"phase", "status", "state"} {
		if word, ok, err := unstructured.NestedString(object.Object, "status", name); ok && err == nil && word != "" {
			return word, message
		}
	}

	var holding []string
	for _, c := range conditions {
		if c.Status == "True" {
			holding = append(holding, c.Type)
		}
	}
	return strings.Join(holding, ", "), message
}

// readConditions returns the conditions in the status of an object. Entries of another form are left out.
func readConditions(object *unstructured.Unstructured) []OperandCondition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var conditions []OperandCondition
	for _, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { value, _ := fields[name].(string); return value }
		if text("type") == "" {
			continue
		}
		c := OperandCondition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")}
		if t, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			c.LastTransitionTime = &t
		}
		conditions = append(conditions, c)
	}
	return conditions
}
