package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SubscriptionState is how far a Subscription is.
type SubscriptionState string

const (
	// SubscriptionStateNone means that nothing was chosen yet.
	SubscriptionStateNone SubscriptionState = ""
	// SubscriptionStateUpgradePending means that a ClusterServiceVersion was chosen that is not there yet.
	SubscriptionStateUpgradePending SubscriptionState = "UpgradePending"
	// SubscriptionStateAtLatest means that the ClusterServiceVersion that was chosen is there.
	SubscriptionStateAtLatest SubscriptionState = "AtLatestKnown"
	// SubscriptionStateFailed means that the InstallPlan has failed, in a namespace where what failed may be
	// replaced.
	SubscriptionStateFailed SubscriptionState = "UpgradeFailed"
	// SubscriptionStateUpgradeAvailable is of old clusters; nothing sets it.
	SubscriptionStateUpgradeAvailable SubscriptionState = "UpgradeAvailable"
)

// Conditions of Subscriptions. Each tells of something wrong: one that is absent, or False, is well.
const (
	// SubscriptionCatalogSourcesUnhealthy means that a catalog that is read is missing or cannot be read.
	SubscriptionCatalogSourcesUnhealthy = "CatalogSourcesUnhealthy"
	// SubscriptionInstallPlanMissing means that status.installPlanRef leads nowhere.
	SubscriptionInstallPlanMissing = "InstallPlanMissing"
	// SubscriptionInstallPlanPending means that the InstallPlan is not complete yet. Its reason is the phase of
	// the plan, or InstallPlanNotYetReconciled.
	SubscriptionInstallPlanPending = "InstallPlanPending"
	// SubscriptionInstallPlanFailed means that the InstallPlan has failed.
	SubscriptionInstallPlanFailed = "InstallPlanFailed"
	// SubscriptionResolutionFailed means that no set of operators could be chosen.
	SubscriptionResolutionFailed = "ResolutionFailed"
	// SubscriptionBundleUnpacking means that a bundle is being unpacked.
	SubscriptionBundleUnpacking = "BundleUnpacking"
	// SubscriptionBundleUnpackFailed means that a bundle could not be unpacked, or no InstallPlan be made of it.
	SubscriptionBundleUnpackFailed = "BundleUnpackFailed"
	// SubscriptionPackageDeprecated means that the catalog deprecates the package.
	SubscriptionPackageDeprecated = "PackageDeprecated"
	// SubscriptionChannelDeprecated means that the catalog deprecates the channel.
	SubscriptionChannelDeprecated = "ChannelDeprecated"
	// SubscriptionBundleDeprecated means that the catalog deprecates what is installed.
	SubscriptionBundleDeprecated = "BundleDeprecated"
	// SubscriptionDeprecated is what the three before it say together.
	SubscriptionDeprecated = "Deprecated"
)

// Reasons of these conditions.
const (
	// NoCatalogSourcesFound means that there is no catalog at all.
	NoCatalogSourcesFound = "NoCatalogSourcesFound"
	// AllCatalogSourcesHealthy means that every catalog can be read.
	AllCatalogSourcesHealthy = "AllCatalogSourcesHealthy"
	// UnhealthyCatalogSourceFound means that one cannot be read.
	UnhealthyCatalogSourceFound = "UnhealthyCatalogSourceFound"
	// CatalogSourcesAdded means that there are more catalogs than before.
	CatalogSourcesAdded = "CatalogSourcesAdded"
	// CatalogSourcesUpdated means that what is known of a catalog has changed.
	CatalogSourcesUpdated = "CatalogSourcesUpdated"
	// CatalogSourcesDeleted means that there are fewer catalogs than before.
	CatalogSourcesDeleted = "CatalogSourcesDeleted"
	// ReferencedInstallPlanNotFound means that the InstallPlan was deleted.
	ReferencedInstallPlanNotFound = "ReferencedInstallPlanNotFound"
	// InstallPlanNotYetReconciled means that the InstallPlan has no phase yet.
	InstallPlanNotYetReconciled = "InstallPlanNotYetReconciled"
	// ReasonInstallPlanFailed means that the InstallPlan has failed and does not say why.
	ReasonInstallPlanFailed = "InstallPlanFailed"
	// ConstraintsNotSatisfiable means that what is wanted contradicts itself, or is not offered.
	ConstraintsNotSatisfiable = "ConstraintsNotSatisfiable"
	// ErrorPreventedResolution means that the choice was not come to.
	ErrorPreventedResolution = "ErrorPreventedResolution"
	// UnpackingInProgress goes with BundleUnpacking.
	UnpackingInProgress = "UnpackingInProgress"
	// ReasonBundleUnpackFailed goes with BundleUnpackFailed.
	ReasonBundleUnpackFailed = "BundleUnpackFailed"
	// ErrorPreventedUnpacking means that a bundle has content that is none.
	ErrorPreventedUnpacking = "ErrorPreventedUnpacking"
	// EnsureInstallPlanFailed means that the InstallPlan could not be written.
	EnsureInstallPlanFailed = "EnsureInstallPlanFailed"
)

// Subscription asks for an operator of a catalog, and for its updates.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName={sub,subs},categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="Package",type=string,JSONPath=`.spec.name`,description="The package that is asked for"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`,description="The catalog that it comes from"
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=`.spec.channel`,description="The channel that is followed"
type Subscription struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is what is asked for.
	// +required
	Spec SubscriptionSpec `json:"spec"`
	// status is what was chosen and what became of it. Controllers write it.
	// +optional
	Status SubscriptionStatus `json:"status,omitzero"`
}

// SubscriptionList is a list of Subscriptions.
// +kubebuilder:object:root=true
type SubscriptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Subscription `json:"items"`
}

// SubscriptionSpec is what is asked for.
type SubscriptionSpec struct {
	// source is the name of the CatalogSource.
	// +required
	CatalogSource string `json:"source"`
	// sourceNamespace is its namespace: that of the Subscription, or that of global catalogs.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// name is the name of the package.
	// +required
	Package string `json:"name"`
	// channel is the channel that is followed. When unset the package's default channel is
	// preferred, and others are taken where it has nothing.
	// +optional
	Channel string `json:"channel,omitempty"`
	// startingCSV is the ClusterServiceVersion that is installed first. When unset that is the
	// newest of the channel.
	// +optional
	StartingCSV string `json:"startingCSV,omitempty"`
	// installPlanApproval is "Manual" when a person has to agree to each installation and update.
	// Anything else is "Automatic".
	// +optional
	InstallPlanApproval Approval `json:"installPlanApproval,omitempty"`
	// config is set on every Deployment of the operator.
	// +optional
	Config *SubscriptionConfig `json:"config,omitempty"`
}

// SubscriptionStatus is what was chosen and what became of it.
type SubscriptionStatus struct {
	// currentCSV is the ClusterServiceVersion that was last chosen.
	// +optional
	CurrentCSV string `json:"currentCSV,omitempty"`
	// installedCSV is the one that was last seen to be there.
	// +optional
	InstalledCSV string `json:"installedCSV,omitempty"`
	// installplan is installPlanRef in an older form.
	// +optional
	Install *InstallPlanReference `json:"installplan,omitempty"`
	// state is how far the Subscription is: UpgradePending, AtLatestKnown or UpgradeFailed.
	// +optional
	State SubscriptionState `json:"state,omitempty"`
	// reason is of old clusters; nothing writes it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// installPlanGeneration is the generation of the InstallPlan.
	// +optional
	InstallPlanGeneration int `json:"installPlanGeneration,omitempty"`
	// installPlanRef is the InstallPlan that brings currentCSV.
	// +optional
	InstallPlanRef *corev1.ObjectReference `json:"installPlanRef,omitempty"`
	// catalogHealth is how the catalogs are that are read for the Subscription, by namespace and name.
	// +optional
	CatalogHealth []SubscriptionCatalogHealth `json:"catalogHealth,omitempty"`
	// conditions tell what is wrong.
	// +optional
	Conditions []SubscriptionCondition `json:"conditions,omitempty"`
	// lastUpdated is when the status was last written.
	// +required
	LastUpdated metav1.Time `json:"lastUpdated"`
}

// InstallPlanReference names an InstallPlan.
type InstallPlanReference struct {
	// +required
	APIVersion string `json:"apiVersion"`
	// +required
	Kind string `json:"kind"`
	// +required
	Name string `json:"name"`
	// uuid is the UID of the plan.
	// +required
	UID types.UID `json:"uuid"`
}

// SubscriptionCatalogHealth is how a catalog is.
type SubscriptionCatalogHealth struct {
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// lastUpdated is when healthy was found out.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
	// healthy reports whether the objects that serve the catalog are as they must be.
	// +required
	Healthy bool `json:"healthy"`
}

// SubscriptionCondition is something that may be wrong with a Subscription.
type SubscriptionCondition struct {
	// +required
	Type string `json:"type"`
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// lastHeartbeatTime is of old clusters; nothing writes it.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// lastTransitionTime is when the condition last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
