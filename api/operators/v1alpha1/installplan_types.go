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

// InstallPlan is a list of steps that install or update operators of its
// namespace. The controller creates it for Subscriptions and executes it once
// it is approved.
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

	// spec names the operators of the plan, and states whether it may be executed.
	// +required
	Spec InstallPlanSpec `json:"spec"`
	// status contains the steps and their progress. Only controllers write it.
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

// InstallPlanSpec names the operators of a plan, and states whether it may be
// executed.
type InstallPlanSpec struct {
	// clusterServiceVersionNames are the names of the ClusterServiceVersions that
	// the plan installs, including those of dependencies.
	// +required
	ClusterServiceVersionNames []string `json:"clusterServiceVersionNames"`
	// approval is "Manual" if a user must approve the plan, and "Automatic"
	// otherwise. It is "Manual" if any Subscription of the namespace was "Manual"
	// when the plan was created.
	// +required
	Approval Approval `json:"approval"`
	// approved is true when the plan may be executed. If approval is "Manual", set
	// it to true to install the operators of the plan. After the execution has
	// started, a change has no effect.
	// +required
	Approved bool `json:"approved"`
	// generation counts the plans of the namespace. The five plans with the
	// highest numbers are kept, and older ones are deleted.
	// +optional
	Generation int `json:"generation,omitempty"`
	// source is not used. Objects of older clusters may contain it.
	// +optional
	CatalogSource string `json:"source,omitempty"`
	// sourceNamespace is not used. Objects of older clusters may contain it.
	// +optional
	CatalogSourceNamespace string `json:"sourceNamespace,omitempty"`
}

// InstallPlanStatus contains the steps of a plan and their progress.
type InstallPlanStatus struct {
	// phase is the progress of the plan: RequiresApproval, Installing, Complete or
	// Failed. Complete is final. A failed plan is retried while a Subscription refers
	// to it, and stays Failed until all steps are done. Delete it to have another plan
	// created.
	// Empty means that the plan was not reconciled yet.
	// +required
	Phase InstallPlanPhase `json:"phase"`
	// conditions contains the condition Installed. It is True when the plan is
	// complete; otherwise its message contains the problem.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []InstallPlanCondition `json:"conditions,omitempty"`
	// catalogSources is an empty list. Plans of older clusters may contain the
	// names of their catalogs.
	// +required
	CatalogSources []string `json:"catalogSources"`
	// plan contains the steps in the order of execution: ClusterServiceVersions,
	// then CustomResourceDefinitions, then other objects.
	// +optional
	Plan []*Step `json:"plan,omitempty"`
	// bundleLookups are the bundles that were unpacked for the plan.
	// +optional
	BundleLookups []BundleLookup `json:"bundleLookups,omitempty"`
	// attenuatedServiceAccountRef is the service account with whose permissions
	// the steps are executed, except those of CustomResourceDefinitions. It comes
	// from the OperatorGroup. When unset, the permissions of the controller are
	// used.
	// +optional
	AttenuatedServiceAccountRef *corev1.ObjectReference `json:"attenuatedServiceAccountRef,omitempty"`
	// startTime is when the execution of the steps began. Failed steps are retried
	// for a limited time from then on, by default one minute.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// message explains what blocks the plan. It is empty when nothing does.
	// +optional
	Message string `json:"message,omitempty"`
}

// InstallPlanCondition is a condition of an InstallPlan.
type InstallPlanCondition struct {
	// type is the type of the condition, which is always Installed.
	// +required
	Type string `json:"type"`
	// status is "True" if the plan is complete, "False" if it failed or is
	// blocked, and "Unknown" otherwise.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// lastUpdateTime is when status, reason or message last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is InstallCheckFailed if the OperatorGroup or its service account is
	// missing or not unique, and InstallComponentFailed if a step failed. It is
	// Unknown after a failed check was corrected, and empty for a complete plan.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains the condition to users.
	// +optional
	Message string `json:"message,omitempty"`
}

// Step is one object that an InstallPlan installs.
type Step struct {
	// resolving is the name of the ClusterServiceVersion that the object belongs
	// to.
	// +required
	Resolving string `json:"resolving"`
	// resource is the object.
	// +required
	Resource StepResource `json:"resource"`
	// optional is not used. Objects of older clusters may contain it.
	// +optional
	Optional bool `json:"optional,omitempty"`
	// status is the progress of the step. Unknown and NotPresent: to be done.
	// Created: the object was created. Present: it existed and was updated if its
	// kind allows it. WaitingForApi: its API is not served yet.
	// UnsupportedResource: its kind cannot be installed.
	// +required
	Status StepStatus `json:"status"`
}

// StepResource identifies an object that an InstallPlan installs.
type StepResource struct {
	// sourceName is the name of the CatalogSource that the object comes from.
	// +required
	CatalogSource string `json:"sourceName"`
	// sourceNamespace is the namespace of that CatalogSource.
	// +required
	CatalogSourceNamespace string `json:"sourceNamespace"`
	// group is the API group of the object. It is empty for the core group.
	// +required
	Group string `json:"group"`
	// version is the API version of the object.
	// +required
	Version string `json:"version"`
	// kind is the kind of the object. BundleSecret is a Secret of the bundle;
	// Secret is a pull secret that is copied from the namespace of the controller.
	// +required
	Kind string `json:"kind"`
	// name is the name of the object.
	// +required
	Name string `json:"name"`
	// manifest is the object as JSON. For an unpacked bundle it is a reference,
	// also as JSON, to the ConfigMap that contains the object.
	// +optional
	Manifest string `json:"manifest,omitempty"`
}

// BundleLookup is a bundle that was unpacked for an InstallPlan.
type BundleLookup struct {
	// path is the image reference of the bundle.
	// +required
	Path string `json:"path"`
	// identifier is the name of the ClusterServiceVersion in the bundle.
	// +required
	Identifier string `json:"identifier"`
	// replaces is the name of the ClusterServiceVersion that the bundle replaces.
	// It is empty if it replaces none.
	// +required
	Replaces string `json:"replaces"`
	// catalogSourceRef is the CatalogSource that the bundle comes from.
	// +required
	CatalogSourceRef *corev1.ObjectReference `json:"catalogSourceRef"`
	// conditions report what is left to do for the bundle, or why it failed. The
	// types are BundleLookupPending, BundleLookupFailed and
	// BundleLookupNotPersisted; an unpacked bundle has none.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []BundleLookupCondition `json:"conditions,omitempty"`
	// properties are the properties of the bundle in the catalog, as JSON. They
	// are written to the annotation operatorframework.io/properties of the
	// ClusterServiceVersion.
	// +optional
	Properties string `json:"properties,omitempty"`
}

// BundleLookupCondition is a condition of a bundle that is unpacked.
type BundleLookupCondition struct {
	// type is BundleLookupPending, BundleLookupFailed or BundleLookupNotPersisted.
	// +required
	Type string `json:"type"`
	// status is "True" if the condition applies. A condition that does not apply
	// is removed.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// reason is the cause as one word in CamelCase, such as JobIncomplete or
	// DeadlineExceeded.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains the condition to users.
	// +optional
	Message string `json:"message,omitempty"`
	// lastUpdateTime is when status, reason or message last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
