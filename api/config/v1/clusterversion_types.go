package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterVersionName is the name of the one ClusterVersion that is used.
const ClusterVersionName = "version"

// ClusterIDPattern is the regular expression of spec.clusterID: a UUID of version 4.
const ClusterIDPattern = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`

// ClusterVersion is the version of the cluster: which release its administrator wants, and
// how far the cluster is. Only the one named version is used.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.history[?(@.state=="Completed")].version`,description="The last release that was applied completely."
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether a release has been applied completely."
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`,description="Whether a release is being applied."
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Progressing")].lastTransitionTime`,description="The time Progressing last changed."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`,description="How far the cluster is."
// +kubebuilder:validation:XValidation:rule="!has(self.spec.capabilities) || !has(self.spec.capabilities.additionalEnabledCapabilities) || !has(self.spec.capabilities.baselineCapabilitySet) || self.spec.capabilities.baselineCapabilitySet != 'None' || !('marketplace' in self.spec.capabilities.additionalEnabledCapabilities) || 'OperatorLifecycleManager' in self.spec.capabilities.additionalEnabledCapabilities || (has(self.status) && has(self.status.capabilities) && has(self.status.capabilities.enabledCapabilities) && 'OperatorLifecycleManager' in self.status.capabilities.enabledCapabilities)",message="the marketplace capability needs the OperatorLifecycleManager capability, which is not enabled: enable it too"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.capabilities) || !has(self.spec.capabilities.additionalEnabledCapabilities) || !has(self.spec.capabilities.baselineCapabilitySet) || self.spec.capabilities.baselineCapabilitySet != 'None' || !('ClusterAPI' in self.spec.capabilities.additionalEnabledCapabilities) || 'CompatibilityRequirements' in self.spec.capabilities.additionalEnabledCapabilities || (has(self.status) && has(self.status.capabilities) && has(self.status.capabilities.enabledCapabilities) && 'CompatibilityRequirements' in self.status.capabilities.enabledCapabilities)",message="the ClusterAPI capability needs the CompatibilityRequirements capability, which is not enabled: enable it too"
type ClusterVersion struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the administrator wants. The operator never changes it.
	// +required
	Spec ClusterVersionSpec `json:"spec"`
	// status is how far the cluster is. The operator alone writes it.
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

// ClusterVersionSpec is what the administrator wants of the cluster's version.
type ClusterVersionSpec struct {
	// clusterID tells this cluster from all others: a random UUID (RFC 4122, version 4). The
	// update service is told it.
	// +required
	ClusterID string `json:"clusterID"`
	// desiredUpdate is the release to update to. Unset keeps the release that the running
	// operator belongs to.
	// +optional
	DesiredUpdate *Update `json:"desiredUpdate,omitempty"`
	// upstream is the URL of the update service that is asked for updates. Unset means the
	// default of the operator.
	// +optional
	Upstream string `json:"upstream,omitempty"`
	// channel is the name of the channel of updates that the cluster follows. Unset means
	// that no update service is asked.
	// +optional
	Channel string `json:"channel,omitempty"`
	// capabilities are the optional parts of the platform that the cluster has. One that was
	// enabled once stays so.
	// +optional
	Capabilities *ClusterVersionCapabilitiesSpec `json:"capabilities,omitempty"`
	// signatureStores are where signatures of releases are looked for, instead of the
	// stores that the release names. Unset means the stores of the release; an empty list
	// lets no update be verified.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=url
	// +optional
	SignatureStores []SignatureStore `json:"signatureStores,omitempty"`
	// overrides are objects of the release that the administrator takes over. While there
	// is one, the cluster is not updated to another minor version.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=group
	// +listMapKey=namespace
	// +listMapKey=name
	// +optional
	Overrides []ComponentOverride `json:"overrides,omitempty"`
}

// Update is a release that the administrator asks for. At least one of version, image and
// architecture must be set.
//
// +kubebuilder:validation:XValidation:rule="!has(self.architecture) || !has(self.image) || size(self.architecture) == 0 || size(self.image) == 0",message="cannot set both Architecture and Image"
// +kubebuilder:validation:XValidation:rule="!has(self.architecture) || size(self.architecture) == 0 || (has(self.version) && size(self.version) > 0)",message="Version must be set if Architecture is set"
type Update struct {
	// architecture of the wanted release. Unset keeps the one that the cluster has; Multi
	// asks for a release whose images are for more than one. It needs version, and excludes
	// image.
	// +optional
	Architecture ClusterVersionArchitecture `json:"architecture,omitempty"`
	// version is the semantic version of the release. Without image it must be one of
	// status.availableUpdates. With image the release must say that it is of this version.
	// +optional
	Version string `json:"version,omitempty"`
	// image is the pull spec of the release, best by digest: one without cannot be verified.
	// Unset means the image that status.availableUpdates has for the version.
	// +optional
	Image string `json:"image,omitempty"`
	// force takes the release though its signature cannot be verified or a precondition
	// stands against it. What was passed over stands in status.history.
	// +optional
	Force bool `json:"force,omitempty"`
	// acceptRisks are the risks of conditional updates that the administrator accepts: they
	// do not keep a release from being recommended.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	// +optional
	AcceptRisks []AcceptRisk `json:"acceptRisks,omitempty"`
}

// AcceptRisk names a risk that the administrator accepts.
type AcceptRisk struct {
	// name of the risk, as status.conditionalUpdates[].risks[] has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
}

// ClusterVersionArchitecture is what the images of a release are for.
// +kubebuilder:validation:Enum=Multi;""
type ClusterVersionArchitecture string

// ClusterVersionArchitectureMulti means that the images are for more than one architecture.
const ClusterVersionArchitectureMulti ClusterVersionArchitecture = "Multi"

// SignatureStore is where signatures of releases are looked for.
type SignatureStore struct {
	// url of the store, of scheme https or http. Signatures are looked for below it, at
	// sha256=<digest>/signature-1 and so on.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="url must be a valid absolute URL"
	// +required
	URL string `json:"url"`
	// ca names a ConfigMap of namespace openshift-config whose key ca.crt holds the
	// authorities by which the store is trusted. Unset means those of the system.
	// +optional
	CA ConfigMapNameReference `json:"ca,omitempty"`
}

// ConfigMapNameReference names a ConfigMap.
type ConfigMapNameReference struct {
	// name of the ConfigMap.
	// +required
	Name string `json:"name"`
}

// ComponentOverride is an object of the release that the administrator takes over.
type ComponentOverride struct {
	// kind of the object.
	// +required
	Kind string `json:"kind"`
	// group of the object's kind; empty for the core group.
	// +required
	Group string `json:"group"`
	// namespace of the object; empty when it is in none.
	// +required
	Namespace string `json:"namespace"`
	// name of the object.
	// +required
	Name string `json:"name"`
	// unmanaged keeps the operator from the object.
	// +required
	Unmanaged bool `json:"unmanaged"`
}

// ClusterVersionStatus is how far the cluster is.
type ClusterVersionStatus struct {
	// desired is the release that was accepted last: the cluster is brought to it, or kept
	// at it.
	// +required
	Desired Release `json:"desired"`
	// history are the releases of the cluster, the newest first, at most 100: those in
	// between that tell least are left out.
	// +listType=atomic
	// +optional
	History []UpdateHistory `json:"history,omitempty"`
	// observedGeneration is the generation of the spec that is being acted on.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`
	// versionHash is about the manifests that are applied: it changes when one of them does.
	// +required
	VersionHash string `json:"versionHash"`
	// capabilities are the optional parts of the platform.
	// +optional
	Capabilities ClusterVersionCapabilitiesStatus `json:"capabilities,omitempty"`
	// conditions are Available, Progressing, Failing, RetrievedUpdates, ReleaseAccepted,
	// ImplicitlyEnabledCapabilities, and where there is something to say Upgradeable and
	// Invalid.
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
	// the highest version first. One whose risks do not apply to this cluster stands in
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
	// architecture of the release's images: unset when they are for one only.
	// +optional
	Architecture ClusterVersionArchitecture `json:"architecture,omitempty"`
	// version is the semantic version.
	// +required
	Version string `json:"version"`
	// image is the pull spec.
	// +required
	Image string `json:"image"`
	// url leads to a page about the release.
	// +optional
	URL string `json:"url,omitempty"`
	// channels are those that the release is in.
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
	// startedTime is when the release was begun.
	// +required
	StartedTime metav1.Time `json:"startedTime"`
	// completionTime is when the release was complete, or when another took its place. It
	// is null while the release is being applied.
	// +nullable
	// +required
	CompletionTime *metav1.Time `json:"completionTime"`
	// version of the release. It is empty when it could not be found out.
	// +required
	Version string `json:"version"`
	// image is the pull spec of the release.
	// +required
	Image string `json:"image"`
	// verified reports whether the signature of the release was verified. That of the first
	// release is not looked at.
	// +required
	Verified bool `json:"verified"`
	// acceptedRisks tells what was passed over when the release was taken.
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
	// risks of the release. It is recommended when none of them applies to the cluster, or
	// is accepted.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=name
	// +required
	Risks []ConditionalUpdateRisk `json:"risks"`
	// conditions are Recommended.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionalUpdateRisk is a known issue of a release, and to which clusters it applies.
type ConditionalUpdateRisk struct {
	// conditions are Applies.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// url leads to a page about the issue.
	// +kubebuilder:validation:Format=uri
	// +kubebuilder:validation:MinLength=1
	// +required
	URL string `json:"url"`
	// name of the issue in CamelCase.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// message tells people what may happen.
	// +kubebuilder:validation:MinLength=1
	// +required
	Message string `json:"message"`
	// matchingRules tell to which clusters the issue applies. The first that can be
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

// ClusterConditionType is a kind of rule.
type ClusterConditionType string

// The kinds of rules.
const (
	// ClusterConditionAlways matches every cluster.
	ClusterConditionAlways ClusterConditionType = "Always"
	// ClusterConditionPromQL asks the cluster's Prometheus.
	ClusterConditionPromQL ClusterConditionType = "PromQL"
)

// PromQLClusterCondition is a rule that asks the cluster's Prometheus.
type PromQLClusterCondition struct {
	// promql is a query whose result is one sample: 1 matches, 0 does not.
	// +kubebuilder:validation:MinLength=1
	// +required
	PromQL string `json:"promql"`
}

// Types of conditions of a ClusterVersion, beside OperatorAvailable, OperatorProgressing and
// OperatorUpgradeable.
const (
	// ClusterVersionFailing means that the release cannot be applied as things are.
	ClusterVersionFailing = "Failing"
	// ClusterVersionInvalid means that the spec has a fault. It is absent otherwise.
	ClusterVersionInvalid = "Invalid"
	// ClusterVersionRetrievedUpdates means that the update service gave its updates.
	ClusterVersionRetrievedUpdates = "RetrievedUpdates"
	// ClusterVersionReleaseAccepted means that the wanted release was retrieved, verified and found
	// fit for the cluster.
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
