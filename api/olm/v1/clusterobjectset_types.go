package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LifecycleState determines whether a revision manages its objects.
// +kubebuilder:validation:Enum=Active;Archived
type LifecycleState string

const (
	// LifecycleStateActive means that the revision's objects are reconciled.
	LifecycleStateActive LifecycleState = "Active"
	// LifecycleStateArchived means that the revision is kept as history only. Objects that
	// no newer revision has adopted are deleted. It cannot become Active again.
	LifecycleStateArchived LifecycleState = "Archived"
)

// CollisionProtection determines what happens when an object already exists.
// +kubebuilder:validation:Enum=Prevent;IfNoController;None
type CollisionProtection string

const (
	// CollisionProtectionPrevent manages only objects that this revision, or an earlier
	// one of the same extension, created.
	CollisionProtectionPrevent CollisionProtection = "Prevent"
	// CollisionProtectionIfNoController also adopts existing objects without a controller
	// owner reference.
	CollisionProtectionIfNoController CollisionProtection = "IfNoController"
	// CollisionProtectionNone adopts any existing object. Two controllers may then
	// overwrite the same object repeatedly.
	CollisionProtectionNone CollisionProtection = "None"
)

// ProbeSelectorType determines how a probe selects objects.
// +kubebuilder:validation:Enum=GroupKind;Label
type ProbeSelectorType string

const (
	// ProbeSelectorTypeGroupKind selects objects by group and kind.
	ProbeSelectorTypeGroupKind ProbeSelectorType = "GroupKind"
	// ProbeSelectorTypeLabel selects objects by label.
	ProbeSelectorTypeLabel ProbeSelectorType = "Label"
)

// ProbeAssertionType is the type of an assertion of a probe.
// +kubebuilder:validation:Enum=ConditionEqual;FieldsEqual;FieldValue
type ProbeAssertionType string

const (
	// ProbeAssertionTypeConditionEqual asserts that a status condition has a status.
	ProbeAssertionTypeConditionEqual ProbeAssertionType = "ConditionEqual"
	// ProbeAssertionTypeFieldsEqual asserts that two fields have the same value.
	ProbeAssertionTypeFieldsEqual ProbeAssertionType = "FieldsEqual"
	// ProbeAssertionTypeFieldValue asserts that a field has a value.
	ProbeAssertionTypeFieldValue ProbeAssertionType = "FieldValue"
)

// ClusterObjectSet is one revision of an extension. It contains the objects of the
// extension in the phases in which they are rolled out.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=='Available')].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=='Progressing')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterObjectSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterObjectSetSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ClusterObjectSetStatus `json:"status,omitempty"`
}

// ClusterObjectSetList is a list of ClusterObjectSets.
// +kubebuilder:object:root=true
type ClusterObjectSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterObjectSet `json:"items"`
}

// ClusterObjectSetSpec is the desired state of a ClusterObjectSet.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phases) || size(oldSelf.phases) == 0 || has(self.phases)",message="phases is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.collisionProtection) || has(self.collisionProtection)",message="collisionProtection is immutable"
type ClusterObjectSetSpec struct {
	// lifecycleState is Active or Archived. The objects of an active revision are
	// reconciled. An archived revision is kept as history only, and cannot become active
	// again.
	// +kubebuilder:validation:XValidation:rule="oldSelf != 'Archived' || self == 'Archived'",message="cannot un-archive"
	// +required
	LifecycleState LifecycleState `json:"lifecycleState"`

	// revision is the number of the revision: 1 for the first revision of an extension,
	// and one more for each later revision. It is immutable.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="revision is immutable"
	// +required
	Revision int64 `json:"revision"`

	// collisionProtection determines what happens to objects that already exist. It
	// applies to every phase and object without a value of its own. It is immutable.
	// Defaults to Prevent.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="collisionProtection is immutable"
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`

	// progressDeadlineMinutes is how long, in minutes, the rollout may take before it
	// is reported as ProgressDeadlineExceeded. It must be between 10 and 720. When unset
	// there is no deadline.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=720
	// +optional
	ProgressDeadlineMinutes *int32 `json:"progressDeadlineMinutes,omitempty"`

	// phases are rolled out in order. A phase starts when every object of the previous
	// phase passes its probes. Phases are removed in reverse order. There can be at most
	// 20 phases, and they are immutable once set.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="oldSelf.size() == 0 || self == oldSelf",message="phases is immutable"
	// +listType=map
	// +listMapKey=name
	// +optional
	Phases []ClusterObjectSetPhase `json:"phases,omitempty"`

	// progressionProbes are additional probes that the objects must pass before the next
	// phase starts. Probes for well-known kinds are built in. There can be at most 20.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	ProgressionProbes []ProgressionProbe `json:"progressionProbes,omitempty"`
}

// ClusterObjectSetPhase is a group of objects that are applied together.
type ClusterObjectSetPhase struct {
	// name of the phase. It must be a DNS label of 1 to 63 characters, unique in the set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a valid DNS1123 label"
	// +required
	Name string `json:"name"`

	// collisionProtection applies to every object of the phase without a value of its
	// own. Defaults to the value in the spec.
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`

	// objects of the phase. There can be at most 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +required
	Objects []ClusterObjectSetObject `json:"objects"`
}

// ClusterObjectSetObject is one object, either inline or in a Secret.
// +kubebuilder:validation:XValidation:rule="has(self.object) != has(self.ref)",message="exactly one of object and ref must be set"
type ClusterObjectSetObject struct {
	// object is the manifest.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Object *unstructured.Unstructured `json:"object,omitempty"`

	// ref refers to a Secret with the manifest, for objects that are too large to be inline.
	// +optional
	Ref *ObjectSourceRef `json:"ref,omitempty"`

	// collisionProtection applies to this object. Defaults to the value of the phase.
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`
}

// ObjectSourceRef refers to a value in a Secret that contains a manifest as JSON, plain
// or compressed with gzip. The Secret must be immutable.
type ObjectSourceRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// namespace of the Secret. Defaults to the namespace of the controller.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// key of the value in the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// ProgressionProbe is a set of assertions about selected objects.
type ProgressionProbe struct {
	// selector selects the objects that the assertions apply to.
	// +required
	Selector ObjectSelector `json:"selector"`
	// assertions must all be true for each selected object. There must be 1 to 20.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +required
	Assertions []ProbeAssertion `json:"assertions"`
}

// ObjectSelector selects objects by group and kind or by label.
// +union
// +kubebuilder:validation:XValidation:rule="self.type == 'GroupKind' ? has(self.groupKind) : !has(self.groupKind)",message="groupKind is required when type is GroupKind, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'Label' ? has(self.label) : !has(self.label)",message="label is required when type is Label, and forbidden otherwise"
type ObjectSelector struct {
	// type is GroupKind or Label.
	// +unionDiscriminator
	// +required
	Type ProbeSelectorType `json:"type"`
	// groupKind is the group and kind of the objects.
	// +optional
	GroupKind *metav1.GroupKind `json:"groupKind,omitempty"`
	// label is a selector for the labels of the objects.
	// +optional
	Label *metav1.LabelSelector `json:"label,omitempty"`
}

// ProbeAssertion is one assertion about an object.
// +union
// +kubebuilder:validation:XValidation:rule="self.type == 'ConditionEqual' ? has(self.conditionEqual) : !has(self.conditionEqual)",message="conditionEqual is required when type is ConditionEqual, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'FieldsEqual' ? has(self.fieldsEqual) : !has(self.fieldsEqual)",message="fieldsEqual is required when type is FieldsEqual, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'FieldValue' ? has(self.fieldValue) : !has(self.fieldValue)",message="fieldValue is required when type is FieldValue, and forbidden otherwise"
type ProbeAssertion struct {
	// type is the type of the assertion.
	// +unionDiscriminator
	// +required
	Type ProbeAssertionType `json:"type"`
	// conditionEqual asserts that a status condition has a status.
	// +optional
	ConditionEqual *ConditionEqualProbe `json:"conditionEqual,omitempty"`
	// fieldsEqual asserts that two fields have the same value.
	// +optional
	FieldsEqual *FieldsEqualProbe `json:"fieldsEqual,omitempty"`
	// fieldValue asserts that a field has a value.
	// +optional
	FieldValue *FieldValueProbe `json:"fieldValue,omitempty"`
}

// ConditionEqualProbe is true when the status condition of the type has the status
// for the object's current generation.
type ConditionEqualProbe struct {
	// type of the condition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	Type string `json:"type"`
	// status of the condition: True, False or Unknown.
	// +kubebuilder:validation:Enum=True;False;Unknown
	// +required
	Status string `json:"status"`
}

// FieldsEqualProbe is true when both fields exist and have the same value.
type FieldsEqualProbe struct {
	// fieldA is the path of a field, such as spec.replicas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	FieldA string `json:"fieldA"`
	// fieldB is the path of a field, such as status.readyReplicas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	FieldB string `json:"fieldB"`
}

// FieldValueProbe is true when the field, formatted as a string, has the value.
type FieldValueProbe struct {
	// fieldPath is the path of a field, such as status.phase.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	FieldPath string `json:"fieldPath"`
	// value that the field must have.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	Value string `json:"value"`
}

// ClusterObjectSetStatus is the observed state of a ClusterObjectSet.
type ClusterObjectSetStatus struct {
	// conditions are Progressing (the state of the rollout), Available (whether the objects
	// pass their probes) and Succeeded (set once, when the first rollout is complete).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedPhases records the content of each phase when it was first loaded. If the
	// content differs later, because a Secret was replaced, the revision is blocked.
	// +listType=map
	// +listMapKey=name
	// +optional
	ObservedPhases []ObservedPhase `json:"observedPhases,omitempty"`
}

// ObservedPhase is the digest of a phase's content.
type ObservedPhase struct {
	// name of the phase.
	// +required
	Name string `json:"name"`
	// digest of the phase's objects, as sha256:<64 hex>.
	// +required
	Digest string `json:"digest"`
}
