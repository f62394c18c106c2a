package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterVersionName is the name of the only ClusterVersion that is used.
const ClusterVersionName = "version"

// ClusterIDPattern is the regular expression of spec.clusterID: a UUID of version 4.
const ClusterIDPattern = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`

// ClusterVersion selects the release of the cluster and reports the progress of updates.
// Only the object named version is used.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.history[?(@.state=="Completed")].version`,description="The last release that was applied completely."
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether a release has been applied completely."
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`,description="Whether a release is being applied."
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Progressing")].lastTransitionTime`,description="The time Progressing last changed."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`,description="The progress of the cluster."
// +kubebuilder:validation:XValidation:rule="!has(self.spec.capabilities) || !has(self.spec.capabilities.additionalEnabledCapabilities) || !has(self.spec.capabilities.baselineCapabilitySet) || self.spec.capabilities.baselineCapabilitySet != 'None' || !('marketplace' in self.spec.capabilities.additionalEnabledCapabilities) || 'OperatorLifecycleManager' in self.spec.capabilities.additionalEnabledCapabilities || (has(self.status) && has(self.status.capabilities) && has(self.status.capabilities.enabledCapabilities) && 'OperatorLifecycleManager' in self.status.capabilities.enabledCapabilities)",message="the marketplace capability needs the OperatorLifecycleManager capability, which is not enabled: enable it too"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.capabilities) || !has(self.spec.capabilities.additionalEnabledCapabilities) || !has(self.spec.capabilities.baselineCapabilitySet) || self.spec.capabilities.baselineCapabilitySet != 'None' || !('ClusterAPI' in self.spec.capabilities.additionalEnabledCapabilities) || 'CompatibilityRequirements' in self.spec.capabilities.additionalEnabledCapabilities || (has(self.status) && has(self.status.capabilities) && has(self.status.capabilities.enabledCapabilities) && 'CompatibilityRequirements' in self.status.capabilities.enabledCapabilities)",message="the ClusterAPI capability needs the CompatibilityRequirements capability, which is not enabled: enable it too"
type ClusterVersion struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. The operator never changes it.
	// +required
	Spec ClusterVersionSpec `json:"spec"`
	// status is the observed state. Only the operator writes it.
	// +optional
	Status ClusterVersionStatus `json:"status,omitempty"`
}

// ClusterVersionList is a list of ClusterVersions.
// +kubebuilder:object:root=true
type ClusterVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterVersion `json:"items"`
}

// ClusterVersionSpec is the desired state of the cluster's version.
type ClusterVersionSpec struct {
	// clusterID identifies the cluster. It is a random UUID (RFC 4122, version 4), and is sent
	// to the update service.
	// +required
	ClusterID string `json:"clusterID"`
	// desiredUpdate is the release to update to. Unset keeps the release that the running
	// operator belongs to.
	// +optional
	DesiredUpdate *Update `json:"desiredUpdate,omitempty"`
	// upstream is the URL of the update service. Unset means the default of the operator.
	// +optional
	Upstream string `json:"upstream,omitempty"`
	// channel is the name of the update channel that the cluster follows. When unset, no
	// updates are requested from the update service.
	// +optional
	Channel string `json:"channel,omitempty"`
	// capabilities are the optional components of the platform to enable. A capability
	// cannot be disabled once it is enabled.
	// +optional
	Capabilities *ClusterVersionCapabilitiesSpec `json:"capabilities,omitempty"`
	// signatureStores contain the signatures of releases. They replace the stores that the
	// release names. Unset means the stores of the release. With an empty list no update can
	// be verified.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=url
	// +optional
	SignatureStores []SignatureStore `json:"signatureStores,omitempty"`
	// overrides are objects of the release that the operator does not manage. While there is
	// one, the cluster is not updated to another minor version.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=group
	// +listMapKey=namespace
	// +listMapKey=name
	// +optional
	Overrides []ComponentOverride `json:"overrides,omitempty"`
}

// Update is a release to update to. At least one of version, image and architecture must
// be set.
//
// +kubebuilder:validation:XValidation:rule="!has(self.architecture) || !has(self.image) || size(self.architecture) == 0 || size(self.image) == 0",message="cannot set both Architecture and Image"
// +kubebuilder:validation:XValidation:rule="!has(self.architecture) || size(self.architecture) == 0 || (has(self.version) && size(self.version) > 0)",message="Version must be set if Architecture is set"
type Update struct {
	// architecture of the release. Unset keeps the current one. Multi selects a release with
	// images for multiple architectures. It requires version, and must not be used with image.
	// +optional
	Architecture ClusterVersionArchitecture `json:"architecture,omitempty"`
	// version is the semantic version of the release. Without image it must be one of
	// status.availableUpdates. With image it must equal the version in the release's metadata.
	// +optional
	Version string `json:"version,omitempty"`
	// image is the pull spec of the release. It should have a digest, because an image
	// without one cannot be verified. Defaults to the image in status.availableUpdates for the
	// version.
	// +optional
	Image string `json:"image,omitempty"`
	// force accepts the release even if its signature cannot be verified or a precondition
	// fails. The ignored problems are recorded in status.history.
	// +optional
	Force bool `json:"force,omitempty"`
	// acceptRisks are the risks of conditional updates that the administrator accepts. An
	// accepted risk does not prevent a release from being recommended.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	// +optional
	AcceptRisks []AcceptRisk `json:"acceptRisks,omitempty"`
}

// AcceptRisk is a risk that the administrator accepts.
type AcceptRisk struct {
	// name of the risk, as in status.conditionalUpdates[].risks[].
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
}

// ClusterVersionArchitecture is the architecture of a release's images.
// +kubebuilder:validation:Enum=Multi;""
type ClusterVersionArchitecture string

// ClusterVersionArchitectureMulti means that the images are for multiple architectures.
const ClusterVersionArchitectureMulti ClusterVersionArchitecture = "Multi"

// SignatureStore is a store of release signatures.
type SignatureStore struct {
	// url of the store, with the scheme https or http. Signatures are at
	// <url>/sha256=<digest>/signature-1 and so on.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="url must be a valid absolute URL"
	// +required
	URL string `json:"url"`
	// ca refers to a ConfigMap in the namespace openshift-config whose key ca.crt contains
	// the certificate authorities for the store. Unset means the system's authorities.
	// +optional
	CA ConfigMapNameReference `json:"ca,omitempty"`
}

// ConfigMapNameReference refers to a ConfigMap.
type ConfigMapNameReference struct {
	// name of the ConfigMap.
	// +required
	Name string `json:"name"`
}

// ComponentOverride is an object of the release that the operator does not manage.
type ComponentOverride struct {
	// kind of the object.
	// +required
	Kind string `json:"kind"`
	// group of the object's kind; empty for the core group.
	// +required
	Group string `json:"group"`
	// namespace of the object; empty for a cluster-scoped object.
	// +required
	Namespace string `json:"namespace"`
	// name of the object.
	// +required
	Name string `json:"name"`
	// unmanaged is true to prevent the operator from managing the object.
	// +required
	Unmanaged bool `json:"unmanaged"`
}

// ClusterVersionStatus is the observed state of the cluster's version.
type ClusterVersionStatus struct {
	// desired is the release that was accepted last, and that the operator applies.
	// +required
	Desired Release `json:"desired"`
	// history has the releases of the cluster, the newest first. It has at most 100 entries:
	// the least informative ones in between are removed.
	// +listType=atomic
	// +optional
	History []UpdateHistory `json:"history,omitempty"`
	// observedGeneration is the generation of the spec that was last reconciled.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`
	// versionHash is the hash of the applied manifests.
	// +required
	VersionHash string `json:"versionHash"`
	// capabilities are the optional components of the platform.
	// +optional
	Capabilities ClusterVersionCapabilitiesStatus `json:"capabilities,omitempty"`
	// conditions are Available, Progressing, Failing, RetrievedUpdates, ReleaseAccepted and
	// ImplicitlyEnabledCapabilities, and Upgradeable and Invalid where they apply.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []ClusterOperatorStatusCondition `json:"conditions,omitempty"`
	// availableUpdates are the recommended releases to which the cluster can be updated, the
	// highest version first. It is null while none are known.
	// +nullable
	// +listType=atomic
	// +required
	AvailableUpdates []Release `json:"availableUpdates"`
	// conditionalUpdates are releases with known risks to which the cluster can be updated,
	// the highest version first. A release whose risks do not apply to this cluster is in
	// availableUpdates too.
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	ConditionalUpdates []ConditionalUpdate `json:"conditionalUpdates,omitempty"`
	// conditionalUpdateRisks are all risks of conditionalUpdates, by name.
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=name
	// +optional
	ConditionalUpdateRisks []ConditionalUpdateRisk `json:"conditionalUpdateRisks,omitempty"`
}

// Release is a release of the platform.
type Release struct {
	// architecture of the release's images; unset when they are for a single one.
	// +optional
	Architecture ClusterVersionArchitecture `json:"architecture,omitempty"`
	// version is the semantic version.
	// +required
	Version string `json:"version"`
	// image is the pull spec.
	// +required
	Image string `json:"image"`
	// url of a page about the release.
	// +optional
	URL string `json:"url,omitempty"`
	// channels are the channels that contain the release.
	// +listType=set
	// +optional
	Channels []string `json:"channels,omitempty"`
}

// UpdateState reports whether a release was applied completely.
type UpdateState string

// The states of an entry of history.
const (
	// CompletedUpdate means that the release was applied completely at least once.
	CompletedUpdate UpdateState = "Completed"
	// PartialUpdate means that the release is being applied, failed, or was replaced before it was
	// complete.
	PartialUpdate UpdateState = "Partial"
)

// UpdateHistory is one release of the cluster.
type UpdateHistory struct {
	// state is Completed or Partial.
	// +required
	State UpdateState `json:"state"`
	// startedTime is when the operator began to apply the release.
	// +required
	StartedTime metav1.Time `json:"startedTime"`
	// completionTime is when the release was applied completely, or replaced by another one.
	// It is null while the release is being applied.
	// +nullable
	// +required
	CompletionTime *metav1.Time `json:"completionTime"`
	// version of the release. It is empty when it is unknown.
	// +required
	Version string `json:"version"`
	// image is the pull spec of the release.
	// +required
	Image string `json:"image"`
	// verified reports whether the signature of the release was verified. The signature of
	// the first release is not checked.
	// +required
	Verified bool `json:"verified"`
	// acceptedRisks describes the problems that were ignored when the release was accepted.
	// +optional
	AcceptedRisks string `json:"acceptedRisks,omitempty"`
}

// ConditionalUpdate is a release with known risks.
type ConditionalUpdate struct {
	// release that the cluster can be updated to.
	// +required
	Release Release `json:"release"`
	// riskNames are the names of risks.
	// +kubebuilder:validation:MaxItems=500
	// +listType=set
	// +optional
	RiskNames []string `json:"riskNames,omitempty"`
	// risks of the release. The release is recommended when every risk either does not apply
	// to the cluster or is accepted.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=name
	// +required
	Risks []ConditionalUpdateRisk `json:"risks"`
	// conditions has the condition Recommended.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionalUpdateRisk is a known issue of a release, with the clusters that it applies to.
type ConditionalUpdateRisk struct {
	// conditions has the condition Applies.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// url of a page about the issue.
	// +kubebuilder:validation:Format=uri
	// +kubebuilder:validation:MinLength=1
	// +required
	URL string `json:"url"`
	// name of the issue in CamelCase.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// message describes the consequences of the issue.
	// +kubebuilder:validation:MinLength=1
	// +required
	Message string `json:"message"`
	// matchingRules determine to which clusters the issue applies. The first rule that can be
	// evaluated decides.
	// +kubebuilder:validation:MinItems=1
	// +listType=atomic
	// +required
	MatchingRules []ClusterCondition `json:"matchingRules"`
}

// ClusterCondition is a rule that matches clusters.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'PromQL' ? has(self.promql) : !has(self.promql)",message="promql is required when type is PromQL, and forbidden otherwise"
type ClusterCondition struct {
	// type is Always, which matches every cluster, or PromQL.
	// +kubebuilder:validation:Enum=Always;PromQL
	// +required
	Type ClusterConditionType `json:"type"`
	// promql is the query of type PromQL.
	// +optional
	PromQL *PromQLClusterCondition `json:"promql,omitempty"`
}

// ClusterConditionType is the type of a rule.
type ClusterConditionType string

// The types of rules.
const (
	// ClusterConditionAlways matches every cluster.
	ClusterConditionAlways ClusterConditionType = "Always"
	// ClusterConditionPromQL queries the cluster's Prometheus.
	ClusterConditionPromQL ClusterConditionType = "PromQL"
)

// PromQLClusterCondition is a rule that queries the cluster's Prometheus.
type PromQLClusterCondition struct {
	// promql is a query whose result is one sample: 1 matches, 0 does not.
	// +kubebuilder:validation:MinLength=1
	// +required
	PromQL string `json:"promql"`
}

// Types of conditions of a ClusterVersion, in addition to OperatorAvailable,
// OperatorProgressing and OperatorUpgradeable.
const (
	// ClusterVersionFailing means that the release cannot be applied.
	ClusterVersionFailing = "Failing"
	// ClusterVersionInvalid means that the spec is invalid. It is absent otherwise.
	ClusterVersionInvalid = "Invalid"
	// ClusterVersionRetrievedUpdates means that updates were retrieved from the update service.
	ClusterVersionRetrievedUpdates = "RetrievedUpdates"
	// ClusterVersionReleaseAccepted means that the desired release was retrieved and verified, and
	// that its preconditions are met.
	ClusterVersionReleaseAccepted = "ReleaseAccepted"
	// ClusterVersionImplicitlyEnabledCapabilities means that the cluster has capabilities that the
	// spec does not ask for.
	ClusterVersionImplicitlyEnabledCapabilities = "ImplicitlyEnabledCapabilities"
)

// Types of conditions of conditional updates and their risks.
const (
	// ConditionalUpdateRecommended means that the release is recommended for this cluster.
	ConditionalUpdateRecommended = "Recommended"
	// ConditionalUpdateRiskApplies means that the risk applies to this cluster.
	ConditionalUpdateRiskApplies = "Applies"
)
