package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperatorGroup selects the namespaces that the operators in its namespace watch.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=operatorgroups,shortName=og,categories=olm
type OperatorGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state.
	// +optional
	Spec OperatorGroupSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	Status OperatorGroupStatus `json:"status,omitzero"`
}

// OperatorGroupList is a list of OperatorGroups.
// +kubebuilder:object:root=true
type OperatorGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []OperatorGroup `json:"items"`
}

// OperatorGroupSpec is the desired state of an OperatorGroup.
type OperatorGroupSpec struct {
	// selector selects the watched namespaces by their labels. It is ignored when targetNamespaces
	// is not empty. When both are unset or empty, all namespaces are watched.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// targetNamespaces are the watched namespaces. They need not exist.
	// +optional
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`
	// serviceAccountName is the ServiceAccount, in the same namespace, whose rights are used to
	// install operators. When unset they are installed with all rights.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// staticProvidedAPIs prevents controllers from changing the annotation olm.providedAPIs.
	// +optional
	StaticProvidedAPIs bool `json:"staticProvidedAPIs,omitempty"`
}

// OperatorGroupStatus is the observed state of an OperatorGroup.
type OperatorGroupStatus struct {
	// namespaces are the watched namespaces. A single empty name means all namespaces.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// serviceAccountRef is the ServiceAccount whose rights are used to install operators.
	// +optional
	ServiceAccountRef *corev1.ObjectReference `json:"serviceAccountRef,omitempty"`
	// lastUpdated is when namespaces last changed.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
}
