package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineConfig is a part of what the operating system of nodes is to be like, or, when its name
// begins with rendered-, all of it. Rendered ones are made by the controller and never changed.
// No secret belongs in one: whoever joins a machine to the cluster can read it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mc
// +kubebuilder:printcolumn:name="GeneratedByController",type=string,JSONPath=`.metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version`,description="Version of the controller that generated the machine config. Empty when a person wrote it."
// +kubebuilder:printcolumn:name="IgnitionVersion",type=string,JSONPath=`.spec.config.ignition.version`,description="Version of the Ignition configuration in the machine config."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the nodes are to be like.
	// +optional
	Spec MachineConfigSpec `json:"spec,omitempty"`
}

// MachineConfigList is a list of MachineConfigs.
// +kubebuilder:object:root=true
type MachineConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineConfig `json:"items"`
}

// MachineConfigSpec is what nodes are to be like.
type MachineConfigSpec struct {
	// osImageURL is the image of the operating system, by digest. Unset means that of the
	// release, and where that names none, what the node runs already.
	// +optional
	OSImageURL string `json:"osImageURL,omitempty"`
	// baseOSExtensionsContainerImage is the image that extensions are taken from. Unset means
	// that of the release.
	// +optional
	BaseOSExtensionsContainerImage string `json:"baseOSExtensionsContainerImage,omitempty"`
	// config is an Ignition configuration of specification 3: files, systemd units, and SSH
	// keys of users. Other parts of it are for the first boot of a machine, and changing them
	// later is refused by the node. Unset means none of these.
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config runtime.RawExtension `json:"config,omitempty"`
	// kernelArguments are appended to those of the kernel.
	// +nullable
	// +listType=atomic
	// +optional
	KernelArguments []string `json:"kernelArguments,omitempty"`
	// extensions are packages to install in addition to the operating system.
	// +nullable
	// +listType=atomic
	// +optional
	Extensions []string `json:"extensions,omitempty"`
	// fips turns the FIPS mode on. It can be chosen only at the first boot of a machine.
	// +optional
	FIPS bool `json:"fips,omitempty"`
	// kernelType is the kernel to run: default, realtime or 64k-pages. Unset means default.
	// +kubebuilder:validation:Enum="";"default";"realtime";"64k-pages"
	// +optional
	KernelType string `json:"kernelType,omitempty"`
}
