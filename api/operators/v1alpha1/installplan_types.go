package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Approval is who has to agree before operators are installed or updated.
type Approval string

const (
	// ApprovalAutomatic means that nobody.
	ApprovalAutomatic Approval = "Automatic"
	// ApprovalManual means that a person, who sets spec.approved of the InstallPlan.
	ApprovalManual Approval = "Manual"
)

// InstallPlanPhase is how far an InstallPlan is.
type InstallPlanPhase string

const (
	// InstallPlanPhaseNone means that nothing was done about it yet.
	InstallPlanPhaseNone InstallPlanPhase = ""
	// InstallPlanPhasePlanning is of old clusters; nothing sets it.
	InstallPlanPhasePlanning InstallPlanPhase = "Planning"
	// InstallPlanPhaseRequiresApproval means that a person has to set spec.approved.
	InstallPlanPhaseRequiresApproval InstallPlanPhase = "RequiresApproval"
	// InstallPlanPhaseInstalling means that its steps are being executed, or are tried again.
	InstallPlanPhaseInstalling InstallPlanPhase = "Installing"
	// InstallPlanPhaseComplete means that every step was executed. Nothing is done about it any more.
	InstallPlanPhaseComplete InstallPlanPhase = "Complete"
	// InstallPlanPhaseFailed means that a step failed for too long, and is not tried again. Only a plan
	// that is executed with the rights of a ServiceAccount is, when these rights change.
	InstallPlanPhaseFailed InstallPlanPhase = "Failed"
)

// Conditions of an InstallPlan, and their reasons.
const (
	// InstallPlanInstalled means that every step was executed.
	InstallPlanInstalled = "Installed"

	// InstallPlanReasonInstallCheckFailed means that the OperatorGroup, or its ServiceAccount, is not as
	// it must be, so that no step can be executed.
	InstallPlanReasonInstallCheckFailed = "InstallCheckFailed"
	// InstallPlanReasonComponentFailed means that a step failed.
	InstallPlanReasonComponentFailed = "InstallComponentFailed"
	// InstallPlanReasonUnknown means that the OperatorGroup is as it must be again.
	InstallPlanReasonUnknown = "Unknown"
)

// StepStatus is how far a step of an InstallPlan is.
type StepStatus string

const (
	// StepStatusUnknown means that it was not tried yet.
	StepStatusUnknown StepStatus = "Unknown"
	// StepStatusNotPresent means that the object is not there, or is there no more.
	StepStatusNotPresent StepStatus = "NotPresent"
	// StepStatusPresent means that the object was there, and is as the step says, unless it is of a kind that is left
	// as it is.
	StepStatusPresent StepStatus = "Present"
	// StepStatusCreated means that the object was created.
	StepStatusCreated StepStatus = "Created"
	// StepStatusNotCreated is of old clusters; it is taken for StepStatusNotPresent.
	StepStatusNotCreated StepStatus = "NotCreated"
	// StepStatusWaitingForAPI means that the CRD was created, and its API is not served yet.
	StepStatusWaitingForAPI StepStatus = "WaitingForApi"
	// StepStatusUnsupportedResource means that nothing installs objects of that kind.
	StepStatusUnsupportedResource StepStatus = "UnsupportedResource"
)

// Conditions of a BundleLookup, and their reasons.
const (
	// BundleLookupPending means that the bundle is not unpacked yet.
	BundleLookupPending = "BundleLookupPending"
	// BundleLookupFailed means that the bundle could not be unpacked. Reason and message are those of the
	// Job's condition.
	BundleLookupFailed = "BundleLookupFailed"
	// BundleLookupNotPersisted means that the bundle has brought no steps to the plan yet.
	BundleLookupNotPersisted = "BundleLookupNotPersisted"

	// BundleLookupReasonJobNotStarted means that there is no Job yet.
	BundleLookupReasonJobNotStarted = "JobNotStarted"
	// BundleLookupReasonJobIncomplete means that the Job runs.
	BundleLookupReasonJobIncomplete = "JobIncomplete"
	// BundleLookupReasonCatalogSourceMissing means that there is no CatalogSource to unpack it for.
	BundleLookupReasonCatalogSourceMissing = "CatalogSourceMissing"
	// BundleLookupReasonNotUnpacked goes with BundleLookupNotPersisted.
	BundleLookupReasonNotUnpacked = "BundleNotUnpacked"
)

// KindBundleSecret is the kind, in steps, of a Secret that a bundle has. A step of the kind Secret
// copies a Secret with a registry's login into the namespace.
const KindBundleSecret = "BundleSecret"

// AnnotationGeneratedBy, on a Subscription, names the InstallPlan that created it.
const AnnotationGeneratedBy = "olm.generated-by"

// InstallPlan is what is done to install or update operators of a namespace, step by step.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ip,categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="CSV",type=string,JSONPath=`.spec.clusterServiceVersionNames[0]`,description="The first ClusterServiceVersion of the plan"
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.spec.approval`,description="Who has to agree"
// +kubebuilder:printcolumn:name="Approved",type=boolean,JSONPath=`.spec.approved`,description="Whether the plan may be executed"
type InstallPlan struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is what the plan is for, and whether it may be executed.
	// +required
	Spec InstallPlanSpec `json:"spec"`
	// status is the steps, and how far they are. Controllers write it.
	// +optional
	Status InstallPlanStatus `json:"status,omitzero"`
}

// InstallPlanList is a list of InstallPlans.
// +kubebuilder:object:root=true
type InstallPlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InstallPlan `json:"items"`
}

// InstallPlanSpec is what a plan is for, and whether it may be executed.
type InstallPlanSpec struct {
	// clusterServiceVersionNames are the ClusterServiceVersions that the plan brings.
	// +required
	ClusterServiceVersionNames []string `json:"clusterServiceVersionNames"`
	// approval is "Automatic" or "Manual": whether a person has to agree.
	// +required
	Approval Approval `json:"approval"`
	// approved is true when the plan may be executed. With the approval "Manual", a person
	// sets it.
	// +required
	Approved bool `json:"approved"`
	// generation counts the plans of a namespace.
	// +optional
	Generation int `json:"generation,omitempty"`
	// source is of old clusters; nothing reads it.
	// +optional
	CatalogSource string `json:"source,omitempty"`
	// sourceNamespace is of old clusters; nothing reads it.
	// +optional
	CatalogSourceNamespace string `json:"sourceNamespace,omitempty"`
}

// InstallPlanStatus is the steps of a plan, and how far they are.
type InstallPlanStatus struct {
	// phase is "RequiresApproval", "Installing", "Complete" or "Failed"; empty while nothing was
	// done.
	// +required
	Phase InstallPlanPhase `json:"phase"`
	// conditions are Installed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []InstallPlanCondition `json:"conditions,omitempty"`
	// catalogSources are the names of the catalogs that the steps come from.
	// +required
	CatalogSources []string `json:"catalogSources"`
	// plan is the steps, in the order in which they are executed.
	// +optional
	Plan []*Step `json:"plan,omitempty"`
	// bundleLookups are the bundles that had to be unpacked for the plan.
	// +optional
	BundleLookups []BundleLookup `json:"bundleLookups,omitempty"`
	// attenuatedServiceAccountRef is the ServiceAccount with whose rights the steps are
	// executed, all but those of CRDs. Unset: with those of the controller.
	// +optional
	AttenuatedServiceAccountRef *corev1.ObjectReference `json:"attenuatedServiceAccountRef,omitempty"`
	// startTime is when the first step was tried. How long a step that fails is tried again is
	// measured from here.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// message is for people: what keeps the plan from being complete.
	// +optional
	Message string `json:"message,omitempty"`
}

// InstallPlanCondition reports whether something holds of a plan.
type InstallPlanCondition struct {
	// type is Installed.
	// +required
	Type string `json:"type"`
	// status is "True", "False" or "Unknown".
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// lastUpdateTime is when the condition was last written.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is one word for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// Step is one object that a plan installs.
type Step struct {
	// resolving is the name of the ClusterServiceVersion that the object belongs to.
	// +required
	Resolving string `json:"resolving"`
	// resource is the object.
	// +required
	Resource StepResource `json:"resource"`
	// optional is of old clusters; nothing reads it.
	// +optional
	Optional bool `json:"optional,omitempty"`
	// status is how far the step is: "Unknown", "NotPresent", "Present", "Created", "WaitingForApi"
	// or "UnsupportedResource".
	// +required
	Status StepStatus `json:"status"`
}

// StepResource is an object that a plan installs.
type StepResource struct {
	// sourceName is the name of the CatalogSource that the object comes from.
	// +required
	CatalogSource string `json:"sourceName"`
	// sourceNamespace is the namespace of that CatalogSource.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// group of the object's API; empty is the core group.
	// +required
	Group string `json:"group"`
	// version of the object's API.
	// +required
	Version string `json:"version"`
	// kind of the object. "BundleSecret" is a Secret that the bundle has, "Secret" one that is
	// copied for its logins of registries.
	// +required
	Kind string `json:"kind"`
	// name of the object.
	// +required
	Name string `json:"name"`
	// manifest is the object as JSON, or, as JSON too, the ConfigMap that has it.
	// +optional
	Manifest string `json:"manifest,omitempty"`
}

// BundleLookup is a bundle that is unpacked for a plan.
type BundleLookup struct {
	// path is the image of the bundle.
	// +required
	Path string `json:"path"`
	// identifier is the name of the bundle's ClusterServiceVersion.
	// +required
	Identifier string `json:"identifier"`
	// replaces is the name of the ClusterServiceVersion that it replaces; empty is none.
	// +required
	Replaces string `json:"replaces"`
	// catalogSourceRef is the CatalogSource that the bundle comes from.
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// conditions are BundleLookupPending, BundleLookupFailed and BundleLookupNotPersisted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []BundleLookupCondition `json:"conditions,omitempty"`
	// properties are those of the bundle in the catalog, as JSON. The ClusterServiceVersion gets
	// them as an annotation.
	// +optional
	Properties string `json:"properties,omitempty"`
}

// BundleLookupCondition reports whether something holds of a bundle that is unpacked.
type BundleLookupCondition struct {
	// type is BundleLookupPending, BundleLookupFailed or BundleLookupNotPersisted.
	// +required
	Type string `json:"type"`
	// status is "True", "False" or "Unknown".
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason is one word for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is for people.
	// +optional
	Message string `json:"message,omitempty"`
	// lastUpdateTime is when the condition was last written.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
