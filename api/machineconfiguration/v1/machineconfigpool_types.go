package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types of conditions of a MachineConfigPool.
const (
	// PoolUpdated means that every node has the configuration of the pool, and is ready.
	PoolUpdated = "Updated"
	// PoolUpdating means that nodes are being updated to the configuration of the pool.
	PoolUpdating = "Updating"
	// PoolNodeDegraded means that nodes report a failed update.
	PoolNodeDegraded = "NodeDegraded"
	// PoolRenderDegraded means that the configuration of the pool could not be rendered.
	PoolRenderDegraded = "RenderDegraded"
	// PoolDegraded is True when PoolNodeDegraded or PoolRenderDegraded is.
	PoolDegraded = "Degraded"
)

// MachineConfigPool is a group of nodes with the same configuration, and controls how they are
// updated to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.status.configuration.name`,description="The last configuration that all nodes of the pool had."
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.conditions[?(@.type=="Updated")].status`,description="Whether all nodes have the configuration of the pool."
// +kubebuilder:printcolumn:name="Updating",type=string,JSONPath=`.status.conditions[?(@.type=="Updating")].status`,description="Whether nodes are being updated to it."
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,description="Whether the update fails."
// +kubebuilder:printcolumn:name="MachineCount",type=number,JSONPath=`.status.machineCount`,description="The number of nodes in the pool."
// +kubebuilder:printcolumn:name="ReadyMachineCount",type=number,JSONPath=`.status.readyMachineCount`,description="The number of nodes that have the configuration and are ready."
// +kubebuilder:printcolumn:name="UpdatedMachineCount",type=number,JSONPath=`.status.updatedMachineCount`,description="The number of nodes that have the configuration."
// +kubebuilder:printcolumn:name="DegradedMachineCount",type=number,JSONPath=`.status.degradedMachineCount`,description="The number of nodes that report a failed update."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineConfigPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects the nodes and the MachineConfigs of the pool.
	// +required
	Spec MachineConfigPoolSpec `json:"spec"`
	// status is the progress of the nodes. Only the controller writes it.
	// +optional
	Status MachineConfigPoolStatus `json:"status,omitempty"`
}

// MachineConfigPoolList is a list of MachineConfigPools.
// +kubebuilder:object:root=true
type MachineConfigPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineConfigPool `json:"items"`
}

// MachineConfigPoolSpec selects the nodes and the MachineConfigs of a pool.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[0-9]{1,2})%$'))",message="maxUnavailable must be a number of nodes, 0 or more, or a percentage from 0% to 100%"
type MachineConfigPoolSpec struct {
	// machineConfigSelector selects the MachineConfigs to merge by their labels. Unset selects
	// none, so that no node can be configured. An empty selector selects all.
	// +optional
	MachineConfigSelector *metav1.LabelSelector `json:"machineConfigSelector,omitempty"`
	// nodeSelector selects the nodes of the pool by their labels. Unset selects none.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// paused stops the update of further nodes. Updates that have started are finished, and
	// configurations are still rendered.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// maxUnavailable limits how many nodes of the pool may be unavailable during an update. It
	// is a number, or a percentage of the pool, rounded down. Unset and 0 mean 1. For the pool
	// arbiter it is always 1. For the control plane it should be less than 3.
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// configuration is the desired rendered configuration of the nodes, with its sources. The
	// controller sets it.
	// +optional
	Configuration MachineConfigPoolConfiguration `json:"configuration,omitempty"`
	// pinnedImageSets are sets of images to keep on the nodes. They are ignored.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +optional
	PinnedImageSets []PinnedImageSetRef `json:"pinnedImageSets,omitempty"`
}

// PinnedImageSetRef refers to a set of images.
type PinnedImageSetRef struct {
	// name of the set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// MachineConfigPoolConfiguration refers to a rendered configuration and its sources.
type MachineConfigPoolConfiguration struct {
	corev1.ObjectReference `json:",inline"`

	// source are the MachineConfigs that were merged.
	// +listType=atomic
	// +optional
	Source []corev1.ObjectReference `json:"source,omitempty"`
}

// MachineConfigPoolStatus is the progress of the nodes of a pool.
type MachineConfigPoolStatus struct {
	// observedGeneration is the generation of the spec that was last reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// configuration is the last rendered configuration that all nodes had.
	// +optional
	Configuration MachineConfigPoolConfiguration `json:"configuration,omitempty"`
	// machineCount is the number of nodes in the pool.
	// +kubebuilder:default=0
	// +optional
	MachineCount int32 `json:"machineCount"`
	// updatedMachineCount is the number of nodes with the configuration in the spec.
	// +kubebuilder:default=0
	// +optional
	UpdatedMachineCount int32 `json:"updatedMachineCount"`
	// readyMachineCount is the number of updated nodes that are ready.
	// +kubebuilder:default=0
	// +optional
	ReadyMachineCount int32 `json:"readyMachineCount"`
	// unavailableMachineCount is the number of nodes that are not ready, cordoned, or being
	// updated.
	// +kubebuilder:default=0
	// +optional
	UnavailableMachineCount int32 `json:"unavailableMachineCount"`
	// degradedMachineCount is the number of nodes that report a failed update.
	// +kubebuilder:default=0
	// +optional
	DegradedMachineCount int32 `json:"degradedMachineCount"`
	// conditions are Updated, Updating, NodeDegraded, RenderDegraded and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []MachineConfigPoolCondition `json:"conditions,omitempty"`
}

// MachineConfigPoolCondition is one condition of a pool.
type MachineConfigPoolCondition struct {
	// type of the condition.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status metav1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status last changed.
	// +nullable
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason for the status, in a few words.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
}
