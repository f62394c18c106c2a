package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterServiceVersionPhase is the phase of a ClusterServiceVersion's installation.
type ClusterServiceVersionPhase string

// ClusterServiceVersionStatus is the observed state of a ClusterServiceVersion.
type ClusterServiceVersionStatus struct {
	// phase of the installation.
	// +optional
	Phase ClusterServiceVersionPhase `json:"phase,omitempty"`
	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is a machine-readable word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastUpdateTime is when the status was last written.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when phase or reason last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// conditions is the history of phases, oldest first.
	// +optional
	Conditions []ClusterServiceVersionCondition `json:"conditions,omitempty"`
	// requirementStatus has the status of each requirement.
	// +optional
	RequirementStatus []RequirementStatus `json:"requirementStatus,omitempty"`
	// certsLastUpdated is when serving certificates were last written.
	// +optional
	CertsLastUpdated *metav1.Time `json:"certsLastUpdated,omitempty"`
	// certsRotateAt is when serving certificates will be renewed.
	// +optional
	CertsRotateAt *metav1.Time `json:"certsRotateAt,omitempty"`
	// cleanup is not used.
	// +optional
	Cleanup CleanupStatus `json:"cleanup,omitzero"`
}

// ClusterServiceVersionCondition is one entry in the history of phases.
type ClusterServiceVersionCondition struct {
	// +optional
	Phase ClusterServiceVersionPhase `json:"phase,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// RequirementStatus is the status of one requirement.
type RequirementStatus struct {
	// +required
	Group string `json:"group"`
	// +required
	Version string `json:"version"`
	// +required
	Kind string `json:"kind"`
	// +required
	Name string `json:"name"`
	// +required
	Status string `json:"status"`
	// +required
	Message string `json:"message"`
	// +optional
	UUID string `json:"uuid,omitempty"`
	// dependents are parts of the requirement, such as the rights of a ServiceAccount.
	// +optional
	Dependents []DependentStatus `json:"dependents,omitempty"`
}

// DependentStatus is the status of a part of a requirement.
type DependentStatus struct {
	// +required
	Group string `json:"group"`
	// +required
	Version string `json:"version"`
	// +required
	Kind string `json:"kind"`
	// +required
	Status string `json:"status"`
	// +optional
	UUID string `json:"uuid,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// CleanupStatus is not used.
type CleanupStatus struct {
	// +optional
	PendingDeletion []ResourceList `json:"pendingDeletion,omitempty"`
}

// ResourceList names objects of one kind.
type ResourceList struct {
	// +required
	Group string `json:"group"`
	// +required
	Kind string `json:"kind"`
	// +required
	Instances []ResourceInstance `json:"instances"`
}

// ResourceInstance names an object.
type ResourceInstance struct {
	// +required
	Name string `json:"name"`
	// namespace is empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
