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

// OperatorCondition is the object in which an operator reports its state to
// OLM. The controller creates one for each ClusterServiceVersion, with the
// same name and namespace.
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

	// spec contains the conditions of the operator and the overrides of an
	// administrator.
	// +optional
	Spec OperatorConditionSpec `json:"spec,omitzero"`
	// status contains the conditions that OLM evaluates.
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

// OperatorConditionSpec contains the conditions of the operator and the
// overrides of an administrator.
type OperatorConditionSpec struct {
	// serviceAccounts are the names of the service accounts of the operator, which
	// may read and write this object. The controller sets them.
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// deployments are the names of the Deployments of the operator. Their
	// containers have the name of this object in the environment variable
	// OPERATOR_CONDITION_NAME. The controller sets them.
	// +optional
	Deployments []string `json:"deployments,omitempty"`
	// overrides are conditions that an administrator sets. Each takes precedence
	// over the condition of the same type that the operator reports, for example
	// to allow an update that the operator blocks.
	// +optional
	Overrides []operatorsv1.ConditionOverride `json:"overrides,omitempty"`
	// conditions are the conditions that the operator reports. While "Upgradeable"
	// is False, the operator is not updated. Other types have no effect.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OperatorConditionStatus contains the conditions that OLM evaluates.
type OperatorConditionStatus struct {
	// conditions are the conditions of the spec, each with the generation of this
	// object that was observed. The controller writes them. An operator without
	// the condition "Upgradeable" can always be updated.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
