package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Types of conditions of a ClusterOperator.
const (
	// OperatorAvailable means that the part of the cluster works.
	OperatorAvailable = "Available"
	// OperatorProgressing means that a change is being rolled out.
	OperatorProgressing = "Progressing"
	// OperatorDegraded means that the part has worked worse than it should for some time.
	OperatorDegraded = "Degraded"
	// OperatorUpgradeable means that False keeps the cluster from being updated to the next minor
	// version; the message says what to do. Anything else allows it.
	OperatorUpgradeable = "Upgradeable"
)

// ReasonAsExpected is the reason of conditions that say that all is well.
const ReasonAsExpected = "AsExpected"

// ClusterOperator is how a part of the cluster reports how it is. Whoever updates the
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

	// spec is the desired state, of which there is none.
	// +required
	Spec ClusterOperatorSpec `json:"spec"`
	// status is what the part reports of itself.
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

// ClusterOperatorStatus is what a part of the cluster reports.
type ClusterOperatorStatus struct {
	// conditions are Available, Progressing, Degraded and Upgradeable, and others that the
	// part may add.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []ClusterOperatorStatusCondition `json:"conditions,omitempty"`
	// versions of the part and of what it runs. The one named operator is that of the part
	// itself: it changes when no old code runs any more.
	// +listType=atomic
	// +optional
	Versions []OperandVersion `json:"versions,omitempty"`
	// relatedObjects are the objects to look at when something is wrong with the part.
	// +listType=atomic
	// +optional
	RelatedObjects []ObjectReference `json:"relatedObjects,omitempty"`
	// extension is whatever else the part reports.
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Extension runtime.RawExtension `json:"extension,omitempty"`
}

// ClusterOperatorStatusCondition is one statement of a part about itself.
type ClusterOperatorStatusCondition struct {
	// type of the statement.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status metav1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status changed last.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason in one word, in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// OperandVersion is the version of something that a part runs.
type OperandVersion struct {
	// name of what has the version; operator is the part itself.
	// +required
	Name string `json:"name"`
	// version of it.
	// +required
	Version string `json:"version"`
}

// ObjectReference names an object. Without a name it means every object of the resource
// in the namespace, and without a namespace too, in the cluster.
type ObjectReference struct {
	// group of the resource; empty for the core group.
	// +required
	Group string `json:"group"`
	// resource is the plural, in lower case.
	// +required
	Resource string `json:"resource"`
	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	Name string `json:"name"`
}
