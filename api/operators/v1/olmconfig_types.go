package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OLMConfigName is the name of the one OLMConfig that counts.
const OLMConfigName = "cluster"

// The condition of an OLMConfig, and its reasons.
const (
	// DisabledCopiedCSVsCondition is True when copies are not wanted and there are none.
	DisabledCopiedCSVsCondition = "DisabledCopiedCSVs"
	// CopiedCSVsEnabledReason means that copies are wanted.
	CopiedCSVsEnabledReason = "CopiedCSVsEnabled"
	// CopiedCSVsDisabledReason means that copies are not wanted.
	CopiedCSVsDisabledReason = "CopiedCSVsDisabled"
)

// OLMConfig configures OLM Classic. The object "cluster" counts, and no other.
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
	// features are parts that can be configured.
	// +optional
	Features *Features `json:"features,omitempty"`
}

// Features are parts of OLM Classic that can be configured.
type Features struct {
	// disableCopiedCSVs keeps ClusterServiceVersions of operators that watch all namespaces from
	// being copied into all namespaces. Unset means false.
	// +optional
	DisableCopiedCSVs *bool `json:"disableCopiedCSVs,omitempty"`
	// packageServerSyncInterval is how often the package server looks for changes of catalogs: a
	// Go duration.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	PackageServerSyncInterval *metav1.Duration `json:"packageServerSyncInterval,omitempty"`
}

// OLMConfigStatus is the observed state of an OLMConfig.
type OLMConfigStatus struct {
	// conditions tell what has come of the configuration.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CopiesDisabled reports whether ClusterServiceVersions of operators that watch all namespaces are
// not to be copied. That of a nil configuration is false.
func (c *OLMConfig) CopiesDisabled() bool {
	return c != nil && c.Spec.Features != nil && c.Spec.Features.DisableCopiedCSVs != nil && *c.Spec.Features.DisableCopiedCSVs
}
