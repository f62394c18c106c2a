package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineConfig is a part of the configuration of nodes' operating system. If its name begins
// with rendered-, it is the complete configuration, which the controller creates and never
// changes. It must not contain secrets, because any machine that joins the cluster can read it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mc
// +kubebuilder:printcolumn:name="GeneratedByController",type=string,JSONPath=`.metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version`,description="Version of the controller that generated the machine config. Empty if a user created it."
// +kubebuilder:printcolumn:name="IgnitionVersion",type=string,JSONPath=`.spec.config.ignition.version`,description="Version of the Ignition configuration in the machine config."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the configuration of the nodes.
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

// MachineConfigSpec is the configuration of nodes.
type MachineConfigSpec struct {
	// osImageURL is the image of the operating system, with a digest. Unset means the image of
	// the release, or the node's current image if the release has none.
	// +optional
	OSImageURL string `json:"osImageURL,omitempty"`
	// baseOSExtensionsContainerImage is the image that contains the extensions. Unset means the
	// image of the release.
	// +optional
	BaseOSExtensionsContainerImage string `json:"baseOSExtensionsContainerImage,omitempty"`
	// config is an Ignition configuration of specification 3: files, systemd units, and SSH
	// keys of users. Other parts of it apply only to the first boot of a machine; a node
	// rejects later changes of them. Unset means an empty configuration.
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config runtime.RawExtension `json:"config,omitempty"`
	// kernelArguments are appended to the arguments of the kernel.
	// +nullable
	// +listType=atomic
	// +optional
	KernelArguments []string `json:"kernelArguments,omitempty"`
	// extensions are packages to install in addition to the operating system.
	// +nullable
	// +listType=atomic
	// +optional
	Extensions []string `json:"extensions,omitempty"`
	// fips enables the FIPS mode. It can be set only at the first boot of a machine.
	// +optional
	FIPS bool `json:"fips,omitempty"`
	// kernelType is the kernel to run: default, realtime or 64k-pages. Defaults to default.
	// +kubebuilder:validation:Enum="";"default";"realtime";"64k-pages"
	// +optional
	KernelType string `json:"kernelType,omitempty"`
}
