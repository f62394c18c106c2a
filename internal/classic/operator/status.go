package operator

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// newStatus returns the status of an Operator with the given components.
func newStatus(operator string, components []component) operatorsv1.OperatorStatus {
	key, _ := csvinfo.ComponentKey(operator) // An invalid one selects no components.
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}

	var refs []operatorsv1.ComponentReference
	for _, c := range components {
		version, kind := c.kind.ToAPIVersionAndKind()
		refs = append(refs, operatorsv1.ComponentReference{
			ObjectReference: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: c.key.Namespace, Name: c.key.Name},
			Conditions:      c.listConditions(),
		})
	}

	slices.SortFunc(refs, func(a, b operatorsv1.ComponentReference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	return operatorsv1.OperatorStatus{Components: &operatorsv1.Components{LabelSelector: selector, Refs: refs}}
}

// listConditions returns the conditions of a component. A ClusterServiceVersion has its phase instead
// of conditions.
func (c component) listConditions() []operatorsv1.ComponentCondition {
	if c.kind == csvKind {
		phase := textField(c.status, "phase")
		if phase == "" {
			return nil
		}
		condition := newCondition(c.status)
		condition.Type, condition.Status = phase, corev1.ConditionTrue
		return []operatorsv1.ComponentCondition{condition}
	}

	list, _ := c.status["conditions"].([]any)
	var conditions []operatorsv1.ComponentCondition
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if condition := newCondition(fields); condition.Type != "" {
			conditions = append(conditions, condition)
		}
	}

	return conditions
}

// newCondition returns the condition that has the given fields.
func newCondition(fields map[string]any) operatorsv1.ComponentCondition {
	return operatorsv1.ComponentCondition{
		Type: textField(fields, "type"), Status: corev1.ConditionStatus(textField(fields, "status")),
		Reason: textField(fields, "reason"), Message: textField(fields, "message"),
		LastUpdateTime: timeField(fields, "lastUpdateTime"), LastTransitionTime: timeField(fields, "lastTransitionTime"),
	}
}

// textField returns a field, or "" if it is not a text.
func textField(fields map[string]any, name string) string {
	text, _ := fields[name].(string)
	return text
}

// timeField returns a field, or nil if it is not a time.
func timeField(fields map[string]any, name string) *metav1.Time {
	parsed, err := time.Parse(time.RFC3339, textField(fields, name))
	if err != nil {
		return nil
	}
	at := metav1.NewTime(parsed)
	return &at
}
