package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of OperatorGroups, and the label of the namespaces that they target.
const (
	// OperatorGroupProvidedAPIsAnnotation, on a group, is the sorted, comma separated list of the
	// APIs that its operators provide, each as Kind.version.group.
	OperatorGroupProvidedAPIsAnnotation = "olm.providedAPIs"
	// ExcludeGlobalNamespaceResolutionAnnotation, on a group, excludes global catalogs from the
	// resolution of its namespace when it is "true".
	ExcludeGlobalNamespaceResolutionAnnotation = "olm.operatorframework.io/exclude-global-namespace-resolution"
	// BundleUnpackTimeoutAnnotation, on a group, is the timeout for unpacking a bundle: a Go
	// duration; 0 means no timeout.
	BundleUnpackTimeoutAnnotation = "operatorframework.io/bundle-unpack-timeout"
	// BundleUnpackMinRetryIntervalAnnotation, on a group, is the minimum retry interval after a
	// failed unpacking: a Go duration; absent and 0 mean no retry.
	BundleUnpackMinRetryIntervalAnnotation = "operatorframework.io/bundle-unpack-min-retry-interval"
	// OperatorGroupLabelPrefix with the UID of a group is the key of the label of every namespace
	// that the group targets, unless it targets all. Its value is empty.
	OperatorGroupLabelPrefix = "olm.operatorgroup.uid/"
)

// Conditions of OperatorGroups, and their reasons.
const (
	// OperatorGroupServiceAccountCondition is True while the ServiceAccount of a group is missing.
	OperatorGroupServiceAccountCondition = "OperatorGroupServiceAccount"
	// OperatorGroupServiceAccountReason is the reason of OperatorGroupServiceAccountCondition.
	OperatorGroupServiceAccountReason = "ServiceAccountNotFound"
	// MultipleOperatorGroupCondition is True while a namespace has more than one group.
	MultipleOperatorGroupCondition = "MultipleOperatorGroup"
	// MultipleOperatorGroupsReason is the reason of MultipleOperatorGroupCondition.
	MultipleOperatorGroupsReason = "MultipleOperatorGroupsFound"
)

// UpgradeStrategy determines whether a failed operator may be replaced by a newer one.
// +kubebuilder:validation:Enum=Default;TechPreviewUnsafeFailForward
type UpgradeStrategy string

const (
	// UpgradeStrategyDefault means that a failed operator is not replaced.
	UpgradeStrategyDefault UpgradeStrategy = "Default"
	// UpgradeStrategyUnsafeFailForward means that a failed operator may be replaced.
	UpgradeStrategyUnsafeFailForward UpgradeStrategy = "TechPreviewUnsafeFailForward"
)

// OperatorGroup defines which namespaces the operators of its own namespace
// watch. A namespace with operators must have exactly one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=operatorgroups,shortName=og,categories=olm
type OperatorGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec defines which namespaces the operators watch, and with which
	// permissions they are installed.
	// +optional
	// +kubebuilder:default={upgradeStrategy:Default}
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
	// +listType=set
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
	// upgradeStrategy determines whether a newer version may replace a failed
	// operator. "Default" does not allow it. "TechPreviewUnsafeFailForward" allows
	// it, so that a failed update can be repaired by another one. Defaults to
	// "Default".
	// +optional
	// +kubebuilder:default=Default
	UpgradeStrategy UpgradeStrategy `json:"upgradeStrategy,omitempty"`
}

// OperatorGroupStatus is the observed state of an OperatorGroup.
type OperatorGroupStatus struct {
	// namespaces are the watched namespaces, sorted by name. A single empty name
	// means all namespaces.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
	// serviceAccountRef is the service account in spec.serviceAccountName. It is
	// unset while the service account does not exist; nothing is installed until
	// it does.
	// +optional
	ServiceAccountRef *corev1.ObjectReference `json:"serviceAccountRef,omitempty"`
	// lastUpdated is when namespaces last changed.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
	// conditions report problems: MultipleOperatorGroup if the namespace has
	// another OperatorGroup, and OperatorGroupServiceAccount if the service
	// account does not exist. A problem that does not exist has no condition.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IsGlobal reports whether the status says that the group watches all namespaces.
func (g *OperatorGroup) IsGlobal() bool {
	return len(g.Status.Namespaces) == 1 && g.Status.Namespaces[0] == metav1.NamespaceAll
}

// NamespaceLabel returns the key of the label of the namespaces that the group targets. It is empty
// for a group without a UID.
func (g *OperatorGroup) NamespaceLabel() string {
	if g.UID == "" {
		return ""
	}
	return OperatorGroupLabelPrefix + string(g.UID)
}
