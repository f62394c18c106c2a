package apply

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// autoscalerManager is the field manager of the HorizontalPodAutoscaler controller.
	autoscalerManager = "kube-controller-manager"
	// scaleSubresource is the subresource by which autoscalers set the number of replicas.
	scaleSubresource = "scale"
)

// IsAutoscaled reports whether an autoscaler has set the number of replicas of an object. Then this
// number is left as it is.
func IsAutoscaled(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}

	for _, entry := range live.GetManagedFields() {
		if entry.Manager != autoscalerManager || entry.Subresource != scaleSubresource || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec["f:replicas"] != nil {
			return true
		}
	}
	return false
}
