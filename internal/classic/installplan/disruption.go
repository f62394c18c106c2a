package installplan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// disruptionOf returns how an object of a bundle affects nodes or workloads beyond its operator, or "". Such an object is
// installed nevertheless, because bundles contain it on purpose.
func disruptionOf(object *unstructured.Unstructured) string {
	switch object.GetKind() {
	case "PodDisruptionBudget":
		for field, values := range map[string][]string{"maxUnavailable": {"0", "0%"}, "minAvailable": {"100%"}} {
			value, ok, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", field)
			if text := fmt.Sprint(value); ok && slices.Contains(values, text) {
				return fmt.Sprintf("spec.%s is %s: nodes with the selected pods cannot be drained", field, text)
			}
		}
	case "PriorityClass":
		if isDefault, _, _ := unstructured.NestedBool(object.Object, "globalDefault"); isDefault {
			return "globalDefault is true: this priority applies to all new pods of the cluster without a priority class"
		}
	}
	return ""
}
