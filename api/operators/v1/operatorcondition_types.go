package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperatorCondition is the interface by which an operator reports its state. This version is
// served for operators that were built for it, which write the conditions to the status.
// Operators built for v2 write them to the spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=operatorconditions,shortName=condition,categories=olm
type OperatorCondition struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state.
	// +optional
	Spec OperatorConditionSpec `json:"spec,omitzero"`
	// status is the observed state.
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

// OperatorConditionSpec names the accounts that may write the conditions, and has the overrides of
// an administrator.
type OperatorConditionSpec struct {
	// serviceAccounts are the ServiceAccounts of the operator, which may write the conditions.
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// deployments are the Deployments of the operator. They get the name of the object in an
	// environment variable.
	// +optional
	Deployments []string `json:"deployments,omitempty"`
	// overrides take precedence over the conditions of the same type.
	// +optional
	Overrides []ConditionOverride `json:"overrides,omitempty"`
}

// ConditionOverride is a condition that an administrator sets.
type ConditionOverride struct {
	// type is the type of the condition.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`
	// reason is a machine-readable word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason"`
	// message is a human-readable explanation.
	// +required
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// observedGeneration is the generation that the condition was set for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// OperatorConditionStatus is the state that the operator reports.
type OperatorConditionStatus struct {
	// conditions are the conditions that the operator reports.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
