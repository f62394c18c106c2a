package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterServiceVersionPhase is the phase of a ClusterServiceVersion's installation.
type ClusterServiceVersionPhase string

// ClusterServiceVersionStatus is the observed state of the installation.
type ClusterServiceVersionStatus struct {
	// phase is the progress of the installation: Pending, InstallReady,
	// Installing, Succeeded, Failed, Replacing or Deleting. Most failures end
	// automatically once their cause is gone. Empty means that the object was not
	// reconciled yet.
	// +optional
	Phase ClusterServiceVersionPhase `json:"phase,omitempty"`
	// message explains the phase to users.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is why the phase was entered, as one word in CamelCase, such as
	// RequirementsNotMet. In a copy of a ClusterServiceVersion of another
	// namespace it is Copied.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastUpdateTime is when phase, reason, message or requirementStatus last
	// changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when phase or reason last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// conditions is the history of phases, oldest first. It contains the last 20
	// entries.
	// +optional
	Conditions []ClusterServiceVersionCondition `json:"conditions,omitempty"`
	// requirementStatus states for each requirement of the operator whether it is
	// met. The operator is not installed until all are met.
	// +optional
	RequirementStatus []RequirementStatus `json:"requirementStatus,omitempty"`
	// certsLastUpdated is when a serving certificate for webhooks or owned APIs
	// was last issued. It is unset for an operator without them.
	// +optional
	CertsLastUpdated *metav1.Time `json:"certsLastUpdated,omitempty"`
	// certsRotateAt is when the next serving certificate will be renewed. The
	// Deployments that use it are then rolled out again.
	// +optional
	CertsRotateAt *metav1.Time `json:"certsRotateAt,omitempty"`
	// cleanup is not used. Objects of older clusters may contain it.
	// +optional
	Cleanup CleanupStatus `json:"cleanup,omitzero"`
}

// ClusterServiceVersionCondition is one entry in the history of phases.
type ClusterServiceVersionCondition struct {
	// phase is the phase that was entered.
	// +optional
	Phase ClusterServiceVersionPhase `json:"phase,omitempty"`
	// message explained the phase when it was entered.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is why the phase was entered, as one word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastUpdateTime is when the entry was added.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the phase was entered.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// RequirementStatus states whether one requirement is met.
type RequirementStatus struct {
	// group is the API group of the required object. It is empty for the core
	// group.
	// +required
	Group string `json:"group"`
	// version is the API version of the required object.
	// +required
	Version string `json:"version"`
	// kind is the kind of the required object, such as CustomResourceDefinition,
	// APIService or ServiceAccount. ClusterServiceVersion refers to
	// minKubeVersion.
	// +required
	Kind string `json:"kind"`
	// name is the name of the required object. For an entry of nativeAPIs, it is
	// the kind.
	// +required
	Name string `json:"name"`
	// status is Present or DeploymentFound if the requirement is met. NotPresent,
	// PresentNotSatisfied, PresentNotAvailable and DeploymentNotFound mean that it
	// is not.
	// +required
	Status string `json:"status"`
	// message explains the status to users.
	// +required
	Message string `json:"message"`
	// uuid is the UID of the required CustomResourceDefinition. It is empty for
	// other requirements.
	// +optional
	UUID string `json:"uuid,omitempty"`
	// dependents are the permissions that a required service account must have,
	// and whether it has them.
	// +optional
	Dependents []DependentStatus `json:"dependents,omitempty"`
}

// DependentStatus states whether a service account has one required
// permission.
type DependentStatus struct {
	// group is rbac.authorization.k8s.io.
	// +required
	Group string `json:"group"`
	// version is v1.
	// +required
	Version string `json:"version"`
	// kind is PolicyRule.
	// +required
	Kind string `json:"kind"`
	// status is Satisfied if the service account has the permission, and
	// NotSatisfied otherwise.
	// +required
	Status string `json:"status"`
	// uuid is not used. Objects of older clusters may contain it.
	// +optional
	UUID string `json:"uuid,omitempty"`
	// message contains the required rule as JSON, and whether it is required in
	// the namespace or in the cluster.
	// +optional
	Message string `json:"message,omitempty"`
}

// CleanupStatus is not used. Objects of older clusters may contain it.
type CleanupStatus struct {
	// pendingDeletion is not used.
	// +optional
	PendingDeletion []ResourceList `json:"pendingDeletion,omitempty"`
}

// ResourceList names objects of one kind. It is not used.
type ResourceList struct {
	// group is the API group of the objects.
	// +required
	Group string `json:"group"`
	// kind is the kind of the objects.
	// +required
	Kind string `json:"kind"`
	// instances are the objects.
	// +required
	Instances []ResourceInstance `json:"instances"`
}

// ResourceInstance names an object. It is not used.
type ResourceInstance struct {
	// name is the name of the object.
	// +required
	Name string `json:"name"`
	// namespace is the namespace of the object. It is empty for a cluster-scoped
	// object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
