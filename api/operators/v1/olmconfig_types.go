package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OLMConfigName is the name of the only OLMConfig that is used.
const OLMConfigName = "cluster"

// The condition of an OLMConfig, and its reasons.
const (
	// DisabledCopiedCSVsCondition is True when copied CSVs are disabled and there are none.
	DisabledCopiedCSVsCondition = "DisabledCopiedCSVs"
	// CopiedCSVsEnabledReason means that copied CSVs are enabled.
	CopiedCSVsEnabledReason = "CopiedCSVsEnabled"
	// CopiedCSVsDisabledReason means that copied CSVs are disabled.
	CopiedCSVsDisabledReason = "CopiedCSVsDisabled"
)

// OLMConfig configures OLM Classic. Only the object named "cluster" is used.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=olmconfigs,scope=Cluster,categories=olm
type OLMConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state.
	// +optional
	Spec OLMConfigSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	Status OLMConfigStatus `json:"status,omitzero"`
}

// OLMConfigList is a list of OLMConfigs.
// +kubebuilder:object:root=true
type OLMConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []OLMConfig `json:"items"`
}

// OLMConfigSpec is the desired state of an OLMConfig.
type OLMConfigSpec struct {
	// features configures single features.
	// +optional
	Features *Features `json:"features,omitempty"`
}

// Features configures features of OLM Classic.
type Features struct {
	// disableCopiedCSVs disables the copies of ClusterServiceVersions of operators that watch all
	// namespaces. Defaults to false.
	// +optional
	DisableCopiedCSVs *bool `json:"disableCopiedCSVs,omitempty"`
	// packageServerSyncInterval is the interval at which the package server resyncs catalogs: a Go
	// duration.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	PackageServerSyncInterval *metav1.Duration `json:"packageServerSyncInterval,omitempty"`
}

// OLMConfigStatus is the observed state of an OLMConfig.
type OLMConfigStatus struct {
	// conditions report the state of the configured features.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CopiesDisabled reports whether copies of ClusterServiceVersions of operators that watch all
// namespaces are disabled. It returns false for a nil OLMConfig.
func (c *OLMConfig) CopiesDisabled() bool {
	return c != nil && c.Spec.Features != nil && c.Spec.Features.DisableCopiedCSVs != nil && *c.Spec.Features.DisableCopiedCSVs
}
