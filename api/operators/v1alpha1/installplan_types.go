package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Approval determines whether installations and updates require approval by a user.
type Approval string

const (
	// ApprovalAutomatic means that no approval is required.
	ApprovalAutomatic Approval = "Automatic"
	// ApprovalManual means that a user has to set spec.approved of the InstallPlan.
	ApprovalManual Approval = "Manual"
)

// InstallPlanPhase is the phase of an InstallPlan.
type InstallPlanPhase string

const (
	// InstallPlanPhaseNone means that the plan was not reconciled yet.
	InstallPlanPhaseNone InstallPlanPhase = ""
	// InstallPlanPhasePlanning exists in old clusters only; it is not set any more.
	InstallPlanPhasePlanning InstallPlanPhase = "Planning"
	// InstallPlanPhaseRequiresApproval means that a user has to set spec.approved.
	InstallPlanPhaseRequiresApproval InstallPlanPhase = "RequiresApproval"
	// InstallPlanPhaseInstalling means that its steps are being executed or retried.
	InstallPlanPhaseInstalling InstallPlanPhase = "Installing"
	// InstallPlanPhaseComplete means that every step was executed. The phase is final.
	InstallPlanPhaseComplete InstallPlanPhase = "Complete"
	// InstallPlanPhaseFailed means that a step failed until the retry timeout. Only a plan with a
	// service account is retried, when the rights of the account change.
	InstallPlanPhaseFailed InstallPlanPhase = "Failed"
)

// Conditions of an InstallPlan, and their reasons.
const (
	// InstallPlanInstalled means that every step was executed.
	InstallPlanInstalled = "Installed"

	// InstallPlanReasonInstallCheckFailed means that the OperatorGroup or its ServiceAccount is
	// missing or invalid, so that no step can be executed.
	InstallPlanReasonInstallCheckFailed = "InstallCheckFailed"
	// InstallPlanReasonComponentFailed means that a step failed.
	InstallPlanReasonComponentFailed = "InstallComponentFailed"
	// InstallPlanReasonUnknown means that the OperatorGroup is valid again.
	InstallPlanReasonUnknown = "Unknown"
)

// StepStatus is the status of a step of an InstallPlan.
type StepStatus string

const (
	// StepStatusUnknown means that the step was not executed yet.
	StepStatusUnknown StepStatus = "Unknown"
	// StepStatusNotPresent means that the object does not exist, or was deleted.
	StepStatusNotPresent StepStatus = "NotPresent"
	// StepStatusPresent means that the object existed. It was updated to the manifest, unless objects
	// of its kind are only created.
	StepStatusPresent StepStatus = "Present"
	// StepStatusCreated means that the object was created.
	StepStatusCreated StepStatus = "Created"
	// StepStatusNotCreated exists in old clusters only; it is treated as StepStatusNotPresent.
	StepStatusNotCreated StepStatus = "NotCreated"
	// StepStatusWaitingForAPI means that the CRD was created, and its API is not served yet.
	StepStatusWaitingForAPI StepStatus = "WaitingForApi"
	// StepStatusUnsupportedResource means that objects of this kind cannot be installed.
	StepStatusUnsupportedResource StepStatus = "UnsupportedResource"
)

// Conditions of a BundleLookup, and their reasons.
const (
	// BundleLookupPending means that the bundle is not unpacked yet.
	BundleLookupPending = "BundleLookupPending"
	// BundleLookupFailed means that the bundle could not be unpacked. Its reason and message are those
	// of the Job's condition.
	BundleLookupFailed = "BundleLookupFailed"
	// BundleLookupNotPersisted means that the steps of the bundle are not in the plan yet.
	BundleLookupNotPersisted = "BundleLookupNotPersisted"

	// BundleLookupReasonJobNotStarted means that there is no Job yet.
	BundleLookupReasonJobNotStarted = "JobNotStarted"
	// BundleLookupReasonJobIncomplete means that the Job is running.
	BundleLookupReasonJobIncomplete = "JobIncomplete"
	// BundleLookupReasonCatalogSourceMissing means that the CatalogSource of the bundle does not exist.
	BundleLookupReasonCatalogSourceMissing = "CatalogSourceMissing"
	// BundleLookupReasonNotUnpacked is a reason of BundleLookupNotPersisted.
	BundleLookupReasonNotUnpacked = "BundleNotUnpacked"
)

// KindBundleSecret is the kind, in steps, of a Secret in a bundle. A step of the kind Secret copies
// a pull secret into the namespace.
const KindBundleSecret = "BundleSecret"

// AnnotationGeneratedBy is the annotation of a Subscription with the name of the InstallPlan that created it.
const AnnotationGeneratedBy = "olm.generated-by"

// InstallPlan is a list of steps that install or update operators of a namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ip,categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="CSV",type=string,JSONPath=`.spec.clusterServiceVersionNames[0]`,description="The first ClusterServiceVersion of the plan"
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.spec.approval`,description="Whether approval is automatic or manual"
// +kubebuilder:printcolumn:name="Approved",type=boolean,JSONPath=`.spec.approved`,description="Whether the plan may be executed"
type InstallPlan struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec names the operators of the plan, and whether it may be executed.
	// +required
	Spec InstallPlanSpec `json:"spec"`
	// status has the steps and their progress. Only controllers write it.
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

// InstallPlanSpec names the operators of a plan, and whether it may be executed.
type InstallPlanSpec struct {
	// clusterServiceVersionNames are the ClusterServiceVersions that the plan installs.
	// +required
	ClusterServiceVersionNames []string `json:"clusterServiceVersionNames"`
	// approval is "Automatic" or "Manual". With "Manual" a user has to approve the plan.
	// +required
	Approval Approval `json:"approval"`
	// approved is true when the plan may be executed. With the approval "Manual", a user sets
	// it.
	// +required
	Approved bool `json:"approved"`
	// generation counts the plans of a namespace.
	// +optional
	Generation int `json:"generation,omitempty"`
	// source exists in old clusters only; it is not used.
	// +optional
	CatalogSource string `json:"source,omitempty"`
	// sourceNamespace exists in old clusters only; it is not used.
	// +optional
	CatalogSourceNamespace string `json:"sourceNamespace,omitempty"`
}

// InstallPlanStatus has the steps of a plan and their progress.
type InstallPlanStatus struct {
	// phase is "RequiresApproval", "Installing", "Complete" or "Failed"; empty until the plan is
	// reconciled.
	// +required
	Phase InstallPlanPhase `json:"phase"`
	// conditions has the condition Installed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []InstallPlanCondition `json:"conditions,omitempty"`
	// catalogSources are the names of the catalogs that the steps come from.
	// +required
	CatalogSources []string `json:"catalogSources"`
	// plan has the steps in the order of execution.
	// +optional
	Plan []*Step `json:"plan,omitempty"`
	// bundleLookups are the bundles that were unpacked for the plan.
	// +optional
	BundleLookups []BundleLookup `json:"bundleLookups,omitempty"`
	// attenuatedServiceAccountRef is the ServiceAccount with whose rights the steps are
	// executed, except steps of CRDs. When unset the rights of the controller are used.
	// +optional
	AttenuatedServiceAccountRef *corev1.ObjectReference `json:"attenuatedServiceAccountRef,omitempty"`
	// startTime is when the execution began. The retry timeout starts at this time.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// message is a human-readable explanation of why the plan is not complete.
	// +optional
	Message string `json:"message,omitempty"`
}

// InstallPlanCondition is a condition of a plan.
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
	// reason is a machine-readable word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a human-readable explanation.
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
	// optional exists in old clusters only; it is not used.
	// +optional
	Optional bool `json:"optional,omitempty"`
	// status of the step: "Unknown", "NotPresent", "Present", "Created", "WaitingForApi" or
	// "UnsupportedResource".
	// +required
	Status StepStatus `json:"status"`
}

// StepResource is an object that a plan installs.
type StepResource struct {
	// sourceName is the name of the object's CatalogSource.
	// +required
	CatalogSource string `json:"sourceName"`
	// sourceNamespace is the namespace of that CatalogSource.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// group of the object's API; empty for the core group.
	// +required
	Group string `json:"group"`
	// version of the object's API.
	// +required
	Version string `json:"version"`
	// kind of the object. "BundleSecret" is a Secret in the bundle, "Secret" a pull secret that
	// is copied.
	// +required
	Kind string `json:"kind"`
	// name of the object.
	// +required
	Name string `json:"name"`
	// manifest is the object as JSON, or a reference, as JSON, to the ConfigMap that contains it.
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
	// replaces is the name of the ClusterServiceVersion that it replaces; empty for none.
	// +required
	Replaces string `json:"replaces"`
	// catalogSourceRef is the CatalogSource of the bundle.
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// conditions are BundleLookupPending, BundleLookupFailed and BundleLookupNotPersisted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []BundleLookupCondition `json:"conditions,omitempty"`
	// properties are the properties of the bundle in the catalog, as JSON. They are set as an
	// annotation of the ClusterServiceVersion.
	// +optional
	Properties string `json:"properties,omitempty"`
}

// BundleLookupCondition is a condition of a bundle that is unpacked.
type BundleLookupCondition struct {
	// type is BundleLookupPending, BundleLookupFailed or BundleLookupNotPersisted.
	// +required
	Type string `json:"type"`
	// status is "True", "False" or "Unknown".
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason is a machine-readable word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a human-readable explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// lastUpdateTime is when the condition was last written.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
