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
	// PoolUpdating means that nodes are being brought to it.
	PoolUpdating = "Updating"
	// PoolNodeDegraded means that nodes report that they could not be.
	PoolNodeDegraded = "NodeDegraded"
	// PoolRenderDegraded means that the configuration of the pool could not be made.
	PoolRenderDegraded = "RenderDegraded"
	// PoolDegraded means that any of the two.
	PoolDegraded = "Degraded"
)

// MachineConfigPool is a group of nodes that have the same configuration, and how they are
// brought to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.status.configuration.name`,description="The configuration that all nodes of the pool had last."
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.conditions[?(@.type=="Updated")].status`,description="Whether all nodes have the configuration of the pool."
// +kubebuilder:printcolumn:name="Updating",type=string,JSONPath=`.status.conditions[?(@.type=="Updating")].status`,description="Whether nodes are being brought to it."
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,description="Whether that fails."
// +kubebuilder:printcolumn:name="MachineCount",type=number,JSONPath=`.status.machineCount`,description="How many nodes the pool has."
// +kubebuilder:printcolumn:name="ReadyMachineCount",type=number,JSONPath=`.status.readyMachineCount`,description="How many of them have the configuration and are ready."
// +kubebuilder:printcolumn:name="UpdatedMachineCount",type=number,JSONPath=`.status.updatedMachineCount`,description="How many of them have the configuration."
// +kubebuilder:printcolumn:name="DegradedMachineCount",type=number,JSONPath=`.status.degradedMachineCount`,description="How many of them report a failure."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineConfigPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which nodes and which configurations the pool is of.
	// +required
	Spec MachineConfigPoolSpec `json:"spec"`
	// status is how far the nodes are. The controller alone writes it.
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

// MachineConfigPoolSpec is which nodes and which configurations a pool is of.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[0-9]{1,2})%$'))",message="maxUnavailable must be a number of nodes, 0 or more, or a percentage from 0% to 100%"
type MachineConfigPoolSpec struct {
	// machineConfigSelector chooses the MachineConfigs that are merged, by their labels. Unset
	// chooses none, which no node can be given; empty chooses all.
	// +optional
	MachineConfigSelector *metav1.LabelSelector `json:"machineConfigSelector,omitempty"`
	// nodeSelector chooses the nodes of the pool, by their labels. Unset chooses none.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// paused keeps nodes from being told to change. Those that have been told already finish,
	// and configurations are rendered on.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// maxUnavailable is how many nodes of the pool may be unavailable at once for an update: a
	// number, or a percentage of the pool, rounded down. Unset and 0 mean 1. The pool arbiter
	// is always at 1, and the control plane should not be given 3.
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// configuration is the rendered configuration that the nodes are to have, and what it is
	// made of. The controller sets it.
	// +optional
	Configuration MachineConfigPoolConfiguration `json:"configuration,omitempty"`
	// pinnedImageSets are sets of images to keep on the nodes. Nothing is done about them here.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +optional
	PinnedImageSets []PinnedImageSetRef `json:"pinnedImageSets,omitempty"`
}

// PinnedImageSetRef names a set of images.
type PinnedImageSetRef struct {
	// name of the set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// MachineConfigPoolConfiguration names a rendered configuration and what it was made of.
type MachineConfigPoolConfiguration struct {
	corev1.ObjectReference `json:",inline"`

	// source are the MachineConfigs that were merged.
	// +listType=atomic
	// +optional
	Source []corev1.ObjectReference `json:"source,omitempty"`
}

// MachineConfigPoolStatus is how far the nodes of a pool are.
type MachineConfigPoolStatus struct {
	// observedGeneration is the generation of the spec that the status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// configuration is the rendered configuration that all nodes had last.
	// +optional
	Configuration MachineConfigPoolConfiguration `json:"configuration,omitempty"`
	// machineCount is how many nodes the pool has.
	// +kubebuilder:default=0
	// +optional
	MachineCount int32 `json:"machineCount"`
	// updatedMachineCount is how many of them have the configuration of spec.
	// +kubebuilder:default=0
	// +optional
	UpdatedMachineCount int32 `json:"updatedMachineCount"`
	// readyMachineCount is how many of these are ready too.
	// +kubebuilder:default=0
	// +optional
	ReadyMachineCount int32 `json:"readyMachineCount"`
	// unavailableMachineCount is how many nodes are not ready, cordoned, or being changed.
	// +kubebuilder:default=0
	// +optional
	UnavailableMachineCount int32 `json:"unavailableMachineCount"`
	// degradedMachineCount is how many nodes report that they could not be changed.
	// +kubebuilder:default=0
	// +optional
	DegradedMachineCount int32 `json:"degradedMachineCount"`
	// conditions are Updated, Updating, NodeDegraded, RenderDegraded and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []MachineConfigPoolCondition `json:"conditions,omitempty"`
}

// MachineConfigPoolCondition is one statement about a pool.
type MachineConfigPoolCondition struct {
	// type of the statement.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status metav1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status changed last.
	// +nullable
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason in a few words.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message for people.
	// +optional
	Message string `json:"message,omitempty"`
}
