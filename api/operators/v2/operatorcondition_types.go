package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
)

const (
	// Upgradeable is the type of the only condition that has a meaning: whether the operator may be
	// replaced by a newer one.
	Upgradeable = "Upgradeable"
	// NameVariable is the environment variable that tells an operator the name of its
	// OperatorCondition.
	NameVariable = "OPERATOR_CONDITION_NAME"
)

// OperatorCondition is how an operator tells what state it is in. There is one for each
// ClusterServiceVersion, of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=operatorconditions,shortName=condition,categories=olm
type OperatorCondition struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec holds what the operator and an administrator say.
	// +optional
	Spec OperatorConditionSpec `json:"spec,omitzero"`
	// status holds what counts.
	// +optional
	Status OperatorConditionStatus `json:"status,omitzero"`
}

// OperatorConditionList is a list of OperatorConditions.
// +kubebuilder:object:root=true
type OperatorConditionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []OperatorCondition `json:"items"`
}

// OperatorConditionSpec is what the operator and an administrator say.
type OperatorConditionSpec struct {
	// serviceAccounts are the ServiceAccounts of the operator, which may write the object.
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// deployments are the Deployments of the operator, which are told the name of the object.
	// +optional
	Deployments []string `json:"deployments,omitempty"`
	// overrides count before the conditions of the same type.
	// +optional
	Overrides []operatorsv1.ConditionOverride `json:"overrides,omitempty"`
	// conditions are what the operator says.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OperatorConditionStatus is what was seen of the spec.
type OperatorConditionStatus struct {
	// conditions are those of the spec, with the generation at which they were seen.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
