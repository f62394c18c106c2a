package v1

// ClusterVersionCapabilitiesSpec are the capabilities that the administrator wants.
type ClusterVersionCapabilitiesSpec struct {
	// baselineCapabilitySet is the set of capabilities to enable. None is the empty set, a
	// version is the set of capabilities that were optional in that version, and vCurrent is
	// the set of all known capabilities. Defaults to vCurrent.
	// +optional
	BaselineCapabilitySet ClusterVersionCapabilitySet `json:"baselineCapabilitySet,omitempty"`
	// additionalEnabledCapabilities are capabilities to enable in addition to the set.
	// +listType=set
	// +optional
	AdditionalEnabledCapabilities []ClusterVersionCapability `json:"additionalEnabledCapabilities,omitempty"`
}

// ClusterVersionCapabilitiesStatus are the capabilities of the cluster.
type ClusterVersionCapabilitiesStatus struct {
	// enabledCapabilities are the enabled capabilities of the cluster.
	// +listType=atomic
	// +optional
	EnabledCapabilities []ClusterVersionCapability `json:"enabledCapabilities,omitempty"`
	// knownCapabilities are all existing capabilities.
	// +listType=atomic
	// +optional
	KnownCapabilities []ClusterVersionCapability `json:"knownCapabilities,omitempty"`
}

// ClusterVersionCapability is an optional component of the platform.
// +kubebuilder:validation:Enum=baremetal;Console;Insights;marketplace;Storage;openshift-samples;CSISnapshot;NodeTuning;MachineAPI;Build;DeploymentConfig;ImageRegistry;OperatorLifecycleManager;OperatorLifecycleManagerV1;CloudCredential;Ingress;CloudControllerManager;CompatibilityRequirements;ClusterAPI
type ClusterVersionCapability string

// The capabilities.
const (
	CapabilityBaremetal                  ClusterVersionCapability = "baremetal"
	CapabilityBuild                      ClusterVersionCapability = "Build"
	CapabilityCloudControllerManager     ClusterVersionCapability = "CloudControllerManager"
	CapabilityCloudCredential            ClusterVersionCapability = "CloudCredential" //nolint:gosec // G101: it is the name of a capability.
	CapabilityClusterAPI                 ClusterVersionCapability = "ClusterAPI"
	CapabilityCompatibilityRequirements  ClusterVersionCapability = "CompatibilityRequirements"
	CapabilityConsole                    ClusterVersionCapability = "Console"
	CapabilityCSISnapshot                ClusterVersionCapability = "CSISnapshot"
	CapabilityDeploymentConfig           ClusterVersionCapability = "DeploymentConfig"
	CapabilityImageRegistry              ClusterVersionCapability = "ImageRegistry"
	CapabilityIngress                    ClusterVersionCapability = "Ingress"
	CapabilityInsights                   ClusterVersionCapability = "Insights"
	CapabilityMachineAPI                 ClusterVersionCapability = "MachineAPI"
	CapabilityMarketplace                ClusterVersionCapability = "marketplace"
	CapabilityNodeTuning                 ClusterVersionCapability = "NodeTuning"
	CapabilityOpenShiftSamples           ClusterVersionCapability = "openshift-samples"
	CapabilityOperatorLifecycleManager   ClusterVersionCapability = "OperatorLifecycleManager"
	CapabilityOperatorLifecycleManagerV1 ClusterVersionCapability = "OperatorLifecycleManagerV1"
	CapabilityStorage                    ClusterVersionCapability = "Storage"
)

// ClusterVersionCapabilitySet names a set of capabilities.
// +kubebuilder:validation:Enum=None;v4.11;v4.12;v4.13;v4.14;v4.15;v4.16;v4.17;v4.18;vCurrent
type ClusterVersionCapabilitySet string

// The sets of capabilities that are not named after a version.
const (
	// CapabilitySetNone is the empty set.
	CapabilitySetNone ClusterVersionCapabilitySet = "None"
	// CapabilitySetCurrent is the set of all known capabilities.
	CapabilitySetCurrent ClusterVersionCapabilitySet = "vCurrent"
)
