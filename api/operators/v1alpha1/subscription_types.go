package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SubscriptionState is the state of a Subscription.
type SubscriptionState string

const (
	// SubscriptionStateNone means that the Subscription was not resolved yet.
	SubscriptionStateNone SubscriptionState = ""
	// SubscriptionStateUpgradePending means that the chosen ClusterServiceVersion does not exist yet.
	SubscriptionStateUpgradePending SubscriptionState = "UpgradePending"
	// SubscriptionStateAtLatest means that the chosen ClusterServiceVersion exists.
	SubscriptionStateAtLatest SubscriptionState = "AtLatestKnown"
	// SubscriptionStateFailed means that the InstallPlan has failed, in a namespace whose OperatorGroup
	// allows failed operators to be replaced.
	SubscriptionStateFailed SubscriptionState = "UpgradeFailed"
	// SubscriptionStateUpgradeAvailable exists in old clusters only; it is not set any more.
	SubscriptionStateUpgradeAvailable SubscriptionState = "UpgradeAvailable"
)

// Conditions of Subscriptions. Each reports a problem: it is absent or False when there is none.
const (
	// SubscriptionCatalogSourcesUnhealthy means that a catalog is missing or cannot be read.
	SubscriptionCatalogSourcesUnhealthy = "CatalogSourcesUnhealthy"
	// SubscriptionInstallPlanMissing means that the InstallPlan in status.installPlanRef does not exist.
	SubscriptionInstallPlanMissing = "InstallPlanMissing"
	// SubscriptionInstallPlanPending means that the InstallPlan is not complete yet. Its reason is the
	// phase of the plan, or InstallPlanNotYetReconciled.
	SubscriptionInstallPlanPending = "InstallPlanPending"
	// SubscriptionInstallPlanFailed means that the InstallPlan has failed.
	SubscriptionInstallPlanFailed = "InstallPlanFailed"
	// SubscriptionResolutionFailed means that no set of operators could be chosen.
	SubscriptionResolutionFailed = "ResolutionFailed"
	// SubscriptionBundleUnpacking means that a bundle is being unpacked.
	SubscriptionBundleUnpacking = "BundleUnpacking"
	// SubscriptionBundleUnpackFailed means that a bundle could not be unpacked, or that the InstallPlan
	// could not be created.
	SubscriptionBundleUnpackFailed = "BundleUnpackFailed"
	// SubscriptionPackageDeprecated means that the catalog deprecates the package.
	SubscriptionPackageDeprecated = "PackageDeprecated"
	// SubscriptionChannelDeprecated means that the catalog deprecates the channel.
	SubscriptionChannelDeprecated = "ChannelDeprecated"
	// SubscriptionBundleDeprecated means that the catalog deprecates the installed bundle.
	SubscriptionBundleDeprecated = "BundleDeprecated"
	// SubscriptionDeprecated combines the three deprecation conditions above.
	SubscriptionDeprecated = "Deprecated"
)

// Reasons of these conditions.
const (
	// NoCatalogSourcesFound means that there is no catalog.
	NoCatalogSourcesFound = "NoCatalogSourcesFound"
	// AllCatalogSourcesHealthy means that every catalog can be read.
	AllCatalogSourcesHealthy = "AllCatalogSourcesHealthy"
	// UnhealthyCatalogSourceFound means that a catalog cannot be read.
	UnhealthyCatalogSourceFound = "UnhealthyCatalogSourceFound"
	// CatalogSourcesAdded means that there are more catalogs than before.
	CatalogSourcesAdded = "CatalogSourcesAdded"
	// CatalogSourcesUpdated means that the health of a catalog has changed.
	CatalogSourcesUpdated = "CatalogSourcesUpdated"
	// CatalogSourcesDeleted means that there are fewer catalogs than before.
	CatalogSourcesDeleted = "CatalogSourcesDeleted"
	// ReferencedInstallPlanNotFound means that the InstallPlan was deleted.
	ReferencedInstallPlanNotFound = "ReferencedInstallPlanNotFound"
	// InstallPlanNotYetReconciled means that the InstallPlan has no phase yet.
	InstallPlanNotYetReconciled = "InstallPlanNotYetReconciled"
	// ReasonInstallPlanFailed means that the InstallPlan has failed without a reason.
	ReasonInstallPlanFailed = "InstallPlanFailed"
	// ConstraintsNotSatisfiable means that the constraints contradict each other, or that no catalog
	// offers a required bundle.
	ConstraintsNotSatisfiable = "ConstraintsNotSatisfiable"
	// ErrorPreventedResolution means that the resolution failed because of an error.
	ErrorPreventedResolution = "ErrorPreventedResolution"
	// UnpackingInProgress is the reason of BundleUnpacking.
	UnpackingInProgress = "UnpackingInProgress"
	// ReasonBundleUnpackFailed is a reason of BundleUnpackFailed.
	ReasonBundleUnpackFailed = "BundleUnpackFailed"
	// ErrorPreventedUnpacking means that the content of a bundle is invalid.
	ErrorPreventedUnpacking = "ErrorPreventedUnpacking"
	// EnsureInstallPlanFailed means that the InstallPlan could not be created.
	EnsureInstallPlanFailed = "EnsureInstallPlanFailed"
)

// Subscription installs an operator from a catalog and keeps it updated.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName={sub,subs},categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="Package",type=string,JSONPath=`.spec.name`,description="The package to install"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`,description="The catalog of the package"
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=`.spec.channel`,description="The channel to follow"
type Subscription struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec selects the operator.
	// +required
	Spec SubscriptionSpec `json:"spec"`
	// status is the chosen operator and the state of its installation. Only controllers write it.
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

// SubscriptionSpec selects an operator.
type SubscriptionSpec struct {
	// source is the name of the CatalogSource.
	// +required
	CatalogSource string `json:"source"`
	// sourceNamespace is the namespace of the CatalogSource: that of the Subscription, or that of
	// global catalogs.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// name is the name of the package.
	// +required
	Package string `json:"name"`
	// channel is the channel to follow. When unset the package's default channel is preferred, and
	// other channels are used if it has no suitable bundle.
	// +optional
	Channel string `json:"channel,omitempty"`
	// startingCSV is the ClusterServiceVersion to install first. Defaults to the newest one in the
	// channel.
	// +optional
	StartingCSV string `json:"startingCSV,omitempty"`
	// installPlanApproval is "Manual" when a user has to approve each installation and update.
	// Any other value means "Automatic".
	// +optional
	InstallPlanApproval Approval `json:"installPlanApproval,omitempty"`
	// config configures every Deployment of the operator.
	// +optional
	Config *SubscriptionConfig `json:"config,omitempty"`
}

// SubscriptionStatus is the chosen operator and the state of its installation.
type SubscriptionStatus struct {
	// currentCSV is the ClusterServiceVersion that was chosen last.
	// +optional
	CurrentCSV string `json:"currentCSV,omitempty"`
	// installedCSV is the chosen ClusterServiceVersion that was last observed to exist.
	// +optional
	InstalledCSV string `json:"installedCSV,omitempty"`
	// installplan is an older form of installPlanRef.
	// +optional
	Install *InstallPlanReference `json:"installplan,omitempty"`
	// state of the Subscription: UpgradePending, AtLatestKnown or UpgradeFailed.
	// +optional
	State SubscriptionState `json:"state,omitempty"`
	// reason exists in old clusters only; it is not set any more.
	// +optional
	Reason string `json:"reason,omitempty"`
	// installPlanGeneration is the generation of the InstallPlan.
	// +optional
	InstallPlanGeneration int `json:"installPlanGeneration,omitempty"`
	// installPlanRef is the InstallPlan that installs currentCSV.
	// +optional
	InstallPlanRef *corev1.ObjectReference `json:"installPlanRef,omitempty"`
	// catalogHealth is the health of the catalogs for the Subscription, sorted by namespace and name.
	// +optional
	CatalogHealth []SubscriptionCatalogHealth `json:"catalogHealth,omitempty"`
	// conditions report problems.
	// +optional
	Conditions []SubscriptionCondition `json:"conditions,omitempty"`
	// lastUpdated is when the status was last written.
	// +required
	LastUpdated metav1.Time `json:"lastUpdated"`
}

// InstallPlanReference refers to an InstallPlan.
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

// SubscriptionCatalogHealth is the health of a catalog.
type SubscriptionCatalogHealth struct {
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// lastUpdated is when the health was determined.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
	// healthy reports whether the catalog is served.
	// +required
	Healthy bool `json:"healthy"`
}

// SubscriptionCondition reports a problem of a Subscription.
type SubscriptionCondition struct {
	// +required
	Type string `json:"type"`
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// lastHeartbeatTime exists in old clusters only; it is not set any more.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// lastTransitionTime is when the condition last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
