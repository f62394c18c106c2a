package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Operator lists the components of an installed operator. Its name is that of the package and that
// of the namespace of the Subscription, separated by a dot. OLM creates it for each Subscription,
// and again after it was deleted while components exist. Its deletion deletes no components.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=operators,scope=Cluster,categories=olm
type Operator struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state. It has no fields.
	// +optional
	Spec OperatorSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	Status OperatorStatus `json:"status,omitzero"`
}

// OperatorList is a list of Operators.
// +kubebuilder:object:root=true
type OperatorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Operator `json:"items"`
}

// OperatorSpec is the desired state of an Operator. It has no fields.
type OperatorSpec struct{}

// OperatorStatus is the observed state of an Operator.
type OperatorStatus struct {
	// components are the objects that belong to the operator.
	// +optional
	Components *Components `json:"components,omitempty"`
}

// Components are the objects that belong to an operator.
type Components struct {
	// labelSelector selects the components: the objects with the label
	// "operators.coreos.com/<name of the Operator>". The part after the slash is truncated to 63
	// characters. OLM labels what it installs for the operator. You can label other objects.
	// +required
	LabelSelector *metav1.LabelSelector `json:"labelSelector"`
	// refs are references to the components, sorted by kind, API version, namespace and name.
	// Deployments, Services, Namespaces, APIServices, CustomResourceDefinitions, Subscriptions,
	// InstallPlans, ClusterServiceVersions, OperatorConditions, Secrets, ConfigMaps,
	// ServiceAccounts, Roles, RoleBindings, ClusterRoles and ClusterRoleBindings are listed.
	// +optional
	Refs []ComponentReference `json:"refs,omitempty"`
}

// ComponentReference is a reference to a component and its conditions.
type ComponentReference struct {
	corev1.ObjectReference `json:",inline"`
	// conditions are the conditions in the status of the component. A ClusterServiceVersion has
	// one, whose type is its phase.
	// +optional
	Conditions []ComponentCondition `json:"conditions,omitempty"`
}

// ComponentCondition is a condition of a component.
type ComponentCondition struct {
	// type is the type of the condition.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason is the reason for the last transition, in upper camel case.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the text for people.
	// +optional
	Message string `json:"message,omitempty"`
	// lastUpdateTime is when the component last updated the condition. Unset means that the
	// component does not report it.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the status of the condition last changed. Unset means that the
	// component does not report it.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
