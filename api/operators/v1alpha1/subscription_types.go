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
	// SubscriptionCSVMissing means that the installed ClusterServiceVersion was deleted, and will be
	// installed again.
	SubscriptionCSVMissing = "ClusterServiceVersionMissing"
	// SubscriptionUpdatePathMissing means that the channel has neither the installed
	// ClusterServiceVersion nor an update of it.
	SubscriptionUpdatePathMissing = "UpdatePathMissing"
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
	// ReinstallPending is the reason of SubscriptionCSVMissing.
	ReinstallPending = "ReinstallPending"
	// InstalledCSVNotInChannel is the reason of SubscriptionUpdatePathMissing.
	InstalledCSVNotInChannel = "InstalledCSVNotInChannel"
	// UnpackingInProgress is the reason of BundleUnpacking.
	UnpackingInProgress = "UnpackingInProgress"
	// ReasonBundleUnpackFailed is a reason of BundleUnpackFailed.
	ReasonBundleUnpackFailed = "BundleUnpackFailed"
	// ErrorPreventedUnpacking means that the content of a bundle is invalid.
	ErrorPreventedUnpacking = "ErrorPreventedUnpacking"
	// EnsureInstallPlanFailed means that the InstallPlan could not be created.
	EnsureInstallPlanFailed = "EnsureInstallPlanFailed"
)

// Subscription installs an operator from a catalog and keeps it up to date.
// Its namespace needs exactly one OperatorGroup.
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

	// spec selects the operator and configures its installation.
	// +required
	Spec SubscriptionSpec `json:"spec"`
	// status is the chosen operator and the state of its installation. Only
	// controllers write it.
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

// SubscriptionSpec selects an operator and configures its installation.
type SubscriptionSpec struct {
	// source is the name of the CatalogSource that contains the package.
	// Dependencies of the operator may come from other catalogs.
	// +required
	CatalogSource string `json:"source"`
	// sourceNamespace is the namespace of the CatalogSource. It is the namespace
	// of the Subscription, or the global namespace of catalogs.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// name is the name of the package in the catalog. Packages are listed by
	// "kubectl get packagemanifests".
	// +required
	Package string `json:"name"`
	// channel is the channel of the package to install and update from. When
	// unset, the default channel of the package is preferred, and other channels
	// are used if it has no suitable version. After a change, updates come from
	// the new channel.
	// +optional
	Channel string `json:"channel,omitempty"`
	// startingCSV is the name of the ClusterServiceVersion to install first. It is
	// ignored once an operator of the package is installed. When unset, the newest
	// version of the channel is installed.
	// +optional
	StartingCSV string `json:"startingCSV,omitempty"`
	// installPlanApproval is "Manual" if a user must approve installations and
	// updates: each new InstallPlan of the namespace then waits until its
	// spec.approved is true. Unset and any other value mean "Automatic". An
	// InstallPlan serves all Subscriptions of the namespace, so that one with
	// "Manual" is enough. A change does not affect existing InstallPlans.
	// +optional
	InstallPlanApproval Approval `json:"installPlanApproval,omitempty"`
	// config changes the Deployments of the operator, for example their
	// environment variables or resources. A change is rolled out at once. When
	// unset, the Deployments are those of the ClusterServiceVersion.
	// +optional
	Config *SubscriptionConfig `json:"config,omitempty"`
}

// SubscriptionStatus is the chosen operator and the state of its installation.
type SubscriptionStatus struct {
	// currentCSV is the name of the ClusterServiceVersion that was chosen last. It
	// may not be installed yet.
	// +optional
	CurrentCSV string `json:"currentCSV,omitempty"`
	// installedCSV is the name of the chosen ClusterServiceVersion that was last
	// observed in the namespace. During an update it differs from currentCSV.
	// +optional
	InstalledCSV string `json:"installedCSV,omitempty"`
	// installplan is an older form of installPlanRef, for clients that still read
	// it.
	// +optional
	Install *InstallPlanReference `json:"installplan,omitempty"`
	// state summarizes the installation. UpgradePending: currentCSV does not exist
	// yet. AtLatestKnown: it exists. UpgradeFailed: its InstallPlan failed, and
	// the OperatorGroup allows failed operators to be replaced. Empty: nothing was
	// chosen yet.
	// +optional
	State SubscriptionState `json:"state,omitempty"`
	// reason is not set any more. Objects of older clusters may contain it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// installPlanGeneration is spec.generation of the InstallPlan in
	// installPlanRef.
	// +optional
	InstallPlanGeneration int `json:"installPlanGeneration,omitempty"`
	// installPlanRef is the InstallPlan that installs currentCSV. If it waits for
	// approval, set spec.approved of this InstallPlan.
	// +optional
	InstallPlanRef *corev1.ObjectReference `json:"installPlanRef,omitempty"`
	// catalogHealth is the health of every catalog in the namespace and in the
	// global namespace, sorted by namespace and name.
	// +optional
	CatalogHealth []SubscriptionCatalogHealth `json:"catalogHealth,omitempty"`
	// conditions report problems: an absent or False condition means that there is
	// none. Types include CatalogSourcesUnhealthy, ResolutionFailed,
	// InstallPlanPending, InstallPlanFailed, BundleUnpackFailed and Deprecated.
	// +optional
	Conditions []SubscriptionCondition `json:"conditions,omitempty"`
	// lastUpdated is when the status last changed.
	// +required
	LastUpdated metav1.Time `json:"lastUpdated"`
}

// InstallPlanReference refers to an InstallPlan in the same namespace.
type InstallPlanReference struct {
	// apiVersion is the API version of the InstallPlan,
	// operators.coreos.com/v1alpha1.
	// +required
	APIVersion string `json:"apiVersion"`
	// kind is always InstallPlan.
	// +required
	Kind string `json:"kind"`
	// name is the name of the InstallPlan.
	// +required
	Name string `json:"name"`
	// uuid is the UID of the InstallPlan.
	// +required
	UID types.UID `json:"uuid"`
}

// SubscriptionCatalogHealth is the health of one catalog.
type SubscriptionCatalogHealth struct {
	// catalogSourceRef is the CatalogSource.
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// lastUpdated is when this health was first observed.
	// +required
	LastUpdated *metav1.Time `json:"lastUpdated"`
	// healthy is true if the catalog has an address and its status reports no
	// problem with its spec, its ConfigMap or its server.
	// +required
	Healthy bool `json:"healthy"`
}

// SubscriptionCondition reports whether a Subscription has a problem of one
// type.
type SubscriptionCondition struct {
	// type is the type of the problem, such as CatalogSourcesUnhealthy or
	// ResolutionFailed.
	// +required
	Type string `json:"type"`
	// status is "True" if the problem exists, "False" if it does not, and
	// "Unknown" otherwise.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason is the cause of the problem as one word in CamelCase. For
	// InstallPlanPending it is the phase of the InstallPlan.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains the problem to users.
	// +optional
	Message string `json:"message,omitempty"`
	// lastHeartbeatTime is not set any more. Objects of older clusters may contain
	// it.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// lastTransitionTime is when status, reason or message last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
