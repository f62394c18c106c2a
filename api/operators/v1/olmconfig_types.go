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

// OLMConfig configures OLM Classic for the whole cluster. Only the object with
// the name "cluster" is used.
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

	// spec configures features of OLM Classic.
	// +optional
	Spec OLMConfigSpec `json:"spec,omitzero"`
	// status reports the state of the configured features. Only the controller
	// writes it.
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

// OLMConfigSpec configures OLM Classic.
type OLMConfigSpec struct {
	// features configures single features. When unset, all have their defaults.
	// +optional
	Features *Features `json:"features,omitempty"`
}

// Features configures features of OLM Classic.
type Features struct {
	// disableCopiedCSVs is true to remove the copies of ClusterServiceVersions
	// whose operators watch all namespaces. Users then see these operators only in
	// their own namespace and in protected namespaces. Defaults to false.
	// +optional
	DisableCopiedCSVs *bool `json:"disableCopiedCSVs,omitempty"`
	// packageServerSyncInterval is how often the package server reads the content
	// of each catalog again, as a duration such as 90s or 1h30m. A change takes
	// effect at once. Defaults to the interval in the flags of the package server,
	// which is 12h unless it was changed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	PackageServerSyncInterval *metav1.Duration `json:"packageServerSyncInterval,omitempty"`
}

// OLMConfigStatus reports the state of the configured features.
type OLMConfigStatus struct {
	// conditions contains the condition DisabledCopiedCSVs. It is True when copies
	// are disabled and none are left outside of protected namespaces.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CopiesDisabled reports whether copies of ClusterServiceVersions of operators that watch all
// namespaces are disabled. It returns false for a nil OLMConfig.
func (c *OLMConfig) CopiesDisabled() bool {
	return c != nil && c.Spec.Features != nil && c.Spec.Features.DisableCopiedCSVs != nil && *c.Spec.Features.DisableCopiedCSVs
}
