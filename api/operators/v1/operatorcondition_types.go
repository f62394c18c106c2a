package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperatorCondition is the object in which an operator reports its state to
// OLM. This version is served for older operators, which write the conditions
// to the status. Newer operators use v2, and write them to the spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=operatorconditions,shortName=condition,categories=olm
type OperatorCondition struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec names the service accounts that may write this object, and contains the
	// overrides of an administrator.
	// +optional
	Spec OperatorConditionSpec `json:"spec,omitzero"`
	// status contains the conditions that the operator reports.
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

// OperatorConditionSpec names the service accounts that may write the
// conditions, and contains the overrides of an administrator.
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
	Overrides []ConditionOverride `json:"overrides,omitempty"`
}

// ConditionOverride is a condition that an administrator sets in place of the
// operator.
type ConditionOverride struct {
	// type is the type of the condition to override. Only "Upgradeable" has an
	// effect.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Type string `json:"type"`
	// status is "True", "False" or "Unknown". For "Upgradeable", only "True"
	// allows updates of the operator.
	// +required
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`
	// reason is why the condition is overridden, as one word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason"`
	// message explains the override to users. It is shown while the override
	// blocks an update.
	// +required
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message"`
	// lastTransitionTime is when status last changed. It is informational.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// observedGeneration is the generation of this object that the override was
	// made for. It is informational: an override never becomes outdated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// OperatorConditionStatus contains the conditions that the operator reports.
type OperatorConditionStatus struct {
	// conditions are the conditions that the operator reports. While "Upgradeable"
	// is False or was reported for an older generation, the operator is not
	// updated. Other types have no effect.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
