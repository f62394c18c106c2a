package v1

// ClusterVersionCapabilitiesSpec are the capabilities that the administrator wants.
type ClusterVersionCapabilitiesSpec struct {
	// baselineCapabilitySet is the set of capabilities that the cluster has at least. None is
	// the empty set, a version is the set that was optional in that version, and vCurrent
	// all that the operator knows. Unset means vCurrent.
	// +optional
	BaselineCapabilitySet ClusterVersionCapabilitySet `json:"baselineCapabilitySet,omitempty"`
	// additionalEnabledCapabilities are those beyond the set.
	// +listType=set
	// +optional
	AdditionalEnabledCapabilities []ClusterVersionCapability `json:"additionalEnabledCapabilities,omitempty"`
}

// ClusterVersionCapabilitiesStatus are the capabilities of the cluster.
type ClusterVersionCapabilitiesStatus struct {
	// enabledCapabilities are those that the cluster has.
	// +listType=atomic
	// +optional
	EnabledCapabilities []ClusterVersionCapability `json:"enabledCapabilities,omitempty"`
	// knownCapabilities are all that there are.
	// +listType=atomic
	// +optional
	KnownCapabilities []ClusterVersionCapability `json:"knownCapabilities,omitempty"`
}

// ClusterVersionCapability is an optional part of the platform.
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

// The sets of capabilities that do not stand for a version.
const (
	// CapabilitySetNone has none.
	CapabilitySetNone ClusterVersionCapabilitySet = "None"
	// CapabilitySetCurrent has all that the operator knows.
	CapabilitySetCurrent ClusterVersionCapabilitySet = "vCurrent"
)
