package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperatorGroup defines which namespaces the operators of its own namespace
// watch. A namespace with operators must have exactly one. This version is
// served for older clients; use v1.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=operatorgroups,shortName=og,categories=olm
type OperatorGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec defines which namespaces the operators watch, and with which
	// permissions they are installed.
	// +optional
	Spec OperatorGroupSpec `json:"spec,omitzero"`
	// status is the observed state of the group. Only the controller writes it.
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

// OperatorGroupSpec defines which namespaces the operators watch, and with
// which permissions they are installed.
type OperatorGroupSpec struct {
	// selector selects the watched namespaces by their labels. It is ignored if
	// targetNamespaces is not empty. If both are unset or empty, the operators
	// watch all namespaces.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// targetNamespaces are the names of the watched namespaces. They need not
	// exist. The empty name is not allowed; to watch all namespaces, leave this
	// field and selector unset.
	// +optional
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`
	// serviceAccountName is the name of a service account, in the same namespace,
	// with whose permissions operators are installed. When unset, they are
	// installed with the permissions of the controllers, which are unrestricted.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// staticProvidedAPIs prevents the controllers from changing the annotation
	// olm.providedAPIs, so that you can maintain it yourself. An operator that
	// provides an API which is not listed then fails. Defaults to false.
	// +optional
	StaticProvidedAPIs bool `json:"staticProvidedAPIs,omitempty"`
}

// OperatorGroupStatus is the observed state of an OperatorGroup.
type OperatorGroupStatus struct {
	// namespaces are the watched namespaces, sorted by name. A single empty name
	// means all namespaces.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// serviceAccountRef is the service account in spec.serviceAccountName. It is
	// unset while the service account does not exist; nothing is installed until
	// it does.
	// +optional
	ServiceAccountRef *corev1.ObjectReference `json:"serviceAccountRef,omitempty"`
	// lastUpdated is when namespaces last changed.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
}
