package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
)

const (
	// Upgradeable is the type of the only condition that is evaluated: whether the operator may be
	// replaced by a newer one.
	Upgradeable = "Upgradeable"
	// NameVariable is the environment variable with the name of an operator's OperatorCondition.
	NameVariable = "OPERATOR_CONDITION_NAME"
)

// OperatorCondition is the interface by which an operator reports its state. There is one for each
// ClusterServiceVersion, with the same name.
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

	// spec contains the conditions of the operator and the overrides of an administrator.
	// +optional
	Spec OperatorConditionSpec `json:"spec,omitzero"`
	// status contains the conditions that are evaluated.
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

// OperatorConditionSpec contains the conditions of the operator and the overrides of an administrator.
type OperatorConditionSpec struct {
	// serviceAccounts are the ServiceAccounts of the operator, which may write the object.
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// deployments are the Deployments of the operator. They get the name of the object in an
	// environment variable.
	// +optional
	Deployments []string `json:"deployments,omitempty"`
	// overrides take precedence over the conditions of the same type.
	// +optional
	Overrides []operatorsv1.ConditionOverride `json:"overrides,omitempty"`
	// conditions are the conditions that the operator reports.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OperatorConditionStatus contains the observed conditions of the spec.
type OperatorConditionStatus struct {
	// conditions are the conditions of the spec, with the observed generation.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
