package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Types of conditions of a ClusterOperator.
const (
	// OperatorAvailable means that the component works.
	OperatorAvailable = "Available"
	// OperatorProgressing means that a change is being rolled out.
	OperatorProgressing = "Progressing"
	// OperatorDegraded means that the component has not worked as expected for some time.
	OperatorDegraded = "Degraded"
	// OperatorUpgradeable is False when the cluster must not be updated to the next minor
	// version. The message states what to do. Any other status allows the update.
	OperatorUpgradeable = "Upgradeable"
)

// ReasonAsExpected is the reason of conditions that report no problem.
const ReasonAsExpected = "AsExpected"

// ClusterOperator is the status report of a component of the cluster. An update of the
// cluster waits for these reports.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=co
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.versions[?(@.name=="operator")].version`,description="The version the operator is at."
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether the operator is running and stable."
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`,description="Whether the operator is processing changes."
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,description="Whether the operator is degraded."
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Available")].lastTransitionTime`,description="The time the operator's Available status last changed."
type ClusterOperator struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is always empty.
	// +required
	Spec ClusterOperatorSpec `json:"spec"`
	// status is what the component reports.
	// +optional
	Status ClusterOperatorStatus `json:"status,omitempty"`
}

// ClusterOperatorList is a list of ClusterOperators.
// +kubebuilder:object:root=true
type ClusterOperatorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterOperator `json:"items"`
}

// ClusterOperatorSpec is empty.
type ClusterOperatorSpec struct{}

// ClusterOperatorStatus is what a component of the cluster reports.
type ClusterOperatorStatus struct {
	// conditions are Available, Progressing, Degraded and Upgradeable, and others that the
	// component may add.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []ClusterOperatorStatusCondition `json:"conditions,omitempty"`
	// versions of the component and its operands. The version named operator is that of
	// the component itself. It changes when no old version is running any more.
	// +listType=atomic
	// +optional
	Versions []OperandVersion `json:"versions,omitempty"`
	// relatedObjects are the objects to inspect when the component has a problem.
	// +listType=atomic
	// +optional
	RelatedObjects []ObjectReference `json:"relatedObjects,omitempty"`
	// extension is additional information that the component reports.
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Extension runtime.RawExtension `json:"extension,omitempty"`
}

// ClusterOperatorStatusCondition is one condition of a component.
type ClusterOperatorStatusCondition struct {
	// type of the condition.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status metav1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason for the status, as one word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}

// FindCondition returns the condition of a type, or nil if there is none.
func FindCondition(conditions []ClusterOperatorStatusCondition, conditionType string) *ClusterOperatorStatusCondition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// OperandVersion is the version of an operand of a component.
type OperandVersion struct {
	// name of the operand; operator is the component itself.
	// +required
	Name string `json:"name"`
	// version of the operand.
	// +required
	Version string `json:"version"`
}

// ObjectReference refers to an object. Without a name it refers to every object of the
// resource in the namespace, or in the cluster if there is no namespace either.
type ObjectReference struct {
	// group of the resource; empty for the core group.
	// +required
	Group string `json:"group"`
	// resource is the plural name of the resource in lower case.
	// +required
	Resource string `json:"resource"`
	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	Name string `json:"name"`
}
