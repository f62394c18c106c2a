package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LifecycleState reports whether a revision manages its objects.
// +kubebuilder:validation:Enum=Active;Archived
type LifecycleState string

const (
	// LifecycleStateActive: the revision's objects are kept as it says.
	LifecycleStateActive LifecycleState = "Active"
	// LifecycleStateArchived: the revision is history; objects that no newer revision
	// has taken over are deleted. There is no way back to Active.
	LifecycleStateArchived LifecycleState = "Archived"
)

// CollisionProtection says what happens when an object already exists.
// +kubebuilder:validation:Enum=Prevent;IfNoController;None
type CollisionProtection string

const (
	// CollisionProtectionPrevent: only objects that the revision, or an earlier one of
	// the same extension, created are managed.
	CollisionProtectionPrevent CollisionProtection = "Prevent"
	// CollisionProtectionIfNoController: existing objects without a controlling owner
	// are adopted too.
	CollisionProtectionIfNoController CollisionProtection = "IfNoController"
	// CollisionProtectionNone: existing objects are taken over from anyone. Two
	// controllers may then write one object for ever.
	CollisionProtectionNone CollisionProtection = "None"
)

// ProbeSelectorType is the way that a probe chooses objects.
// +kubebuilder:validation:Enum=GroupKind;Label
type ProbeSelectorType string

const (
	// ProbeSelectorTypeGroupKind: by group and kind.
	ProbeSelectorTypeGroupKind ProbeSelectorType = "GroupKind"
	// ProbeSelectorTypeLabel: by label.
	ProbeSelectorTypeLabel ProbeSelectorType = "Label"
)

// ProbeAssertionType is the kind of statement that a probe makes.
// +kubebuilder:validation:Enum=ConditionEqual;FieldsEqual;FieldValue
type ProbeAssertionType string

const (
	// ProbeAssertionTypeConditionEqual: a status condition has a status.
	ProbeAssertionTypeConditionEqual ProbeAssertionType = "ConditionEqual"
	// ProbeAssertionTypeFieldsEqual: two fields have the same value.
	ProbeAssertionTypeFieldsEqual ProbeAssertionType = "FieldsEqual"
	// ProbeAssertionTypeFieldValue: a field has a value.
	ProbeAssertionTypeFieldValue ProbeAssertionType = "FieldValue"
)

// ClusterObjectSet is one revision of an extension: the objects it consists of, in
// the phases in which they are rolled out.
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

	// spec is the wanted state.
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

// ClusterObjectSetSpec is the wanted state of a ClusterObjectSet.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phases) || size(oldSelf.phases) == 0 || has(self.phases)",message="phases is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.collisionProtection) || has(self.collisionProtection)",message="collisionProtection is immutable"
type ClusterObjectSetSpec struct {
	// lifecycleState is Active, the objects are kept as the revision says, or Archived,
	// the revision is history. An archived revision cannot become active again.
	// +kubebuilder:validation:XValidation:rule="oldSelf != 'Archived' || self == 'Archived'",message="cannot un-archive"
	// +required
	LifecycleState LifecycleState `json:"lifecycleState"`

	// revision is the number of the revision: 1 for the first of an extension, and one
	// more than the one before for each after it. It cannot be changed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="revision is immutable"
	// +required
	Revision int64 `json:"revision"`

	// collisionProtection says what happens to objects that already exist. It holds for
	// every phase and object that does not say otherwise. It cannot be changed. When
	// unset it is Prevent.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="collisionProtection is immutable"
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`

	// progressDeadlineMinutes is how long, in minutes, the roll-out may take before it
	// is reported as ProgressDeadlineExceeded. 10 to 720; when unset there is no
	// deadline.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=720
	// +optional
	ProgressDeadlineMinutes *int32 `json:"progressDeadlineMinutes,omitempty"`

	// phases are rolled out in their order, each when every object of the one before
	// passes its probes, and removed in the reverse order. At most 20; they cannot be
	// changed once there are any.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="oldSelf.size() == 0 || self == oldSelf",message="phases is immutable"
	// +listType=map
	// +listMapKey=name
	// +optional
	Phases []ClusterObjectSetPhase `json:"phases,omitempty"`

	// progressionProbes are further statements about the objects, beside those built in
	// for well-known kinds, that must hold before the next phase starts. At most 20.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	ProgressionProbes []ProgressionProbe `json:"progressionProbes,omitempty"`
}

// ClusterObjectSetPhase is a group of objects that are applied together.
type ClusterObjectSetPhase struct {
	// name of the phase: a DNS label of 1 to 63 characters, unique in the set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a valid DNS1123 label"
	// +required
	Name string `json:"name"`

	// collisionProtection holds for every object of the phase that does not say
	// otherwise. When unset that of the spec holds.
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`

	// objects of the phase, at most 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +required
	Objects []ClusterObjectSetObject `json:"objects"`
}

// ClusterObjectSetObject is one object, in place or in a Secret.
// +kubebuilder:validation:XValidation:rule="has(self.object) != has(self.ref)",message="exactly one of object and ref must be set"
type ClusterObjectSetObject struct {
	// object is the manifest.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Object *unstructured.Unstructured `json:"object,omitempty"`

	// ref names the Secret that holds the manifest, for objects too large to stand here.
	// +optional
	Ref *ObjectSourceRef `json:"ref,omitempty"`

	// collisionProtection holds for this object. When unset that of the phase holds.
	// +optional
	CollisionProtection CollisionProtection `json:"collisionProtection,omitempty"`
}

// ObjectSourceRef names a value in a Secret that holds a manifest as JSON, plain or
// compressed with gzip. The Secret must be immutable.
type ObjectSourceRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// namespace of the Secret. When unset it is the namespace that the controller runs in.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// key of the value in the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// ProgressionProbe is a statement about some of the objects.
type ProgressionProbe struct {
	// selector chooses the objects that the statement is about.
	// +required
	Selector ObjectSelector `json:"selector"`
	// assertions must all hold for each of them. 1 to 20.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +required
	Assertions []ProbeAssertion `json:"assertions"`
}

// ObjectSelector chooses objects by group and kind or by label.
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

// ProbeAssertion is one statement about an object.
// +union
// +kubebuilder:validation:XValidation:rule="self.type == 'ConditionEqual' ? has(self.conditionEqual) : !has(self.conditionEqual)",message="conditionEqual is required when type is ConditionEqual, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'FieldsEqual' ? has(self.fieldsEqual) : !has(self.fieldsEqual)",message="fieldsEqual is required when type is FieldsEqual, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'FieldValue' ? has(self.fieldValue) : !has(self.fieldValue)",message="fieldValue is required when type is FieldValue, and forbidden otherwise"
type ProbeAssertion struct {
	// type is the kind of statement.
	// +unionDiscriminator
	// +required
	Type ProbeAssertionType `json:"type"`
	// conditionEqual says that a status condition has a status.
	// +optional
	ConditionEqual *ConditionEqualProbe `json:"conditionEqual,omitempty"`
	// fieldsEqual says that two fields have the same value.
	// +optional
	FieldsEqual *FieldsEqualProbe `json:"fieldsEqual,omitempty"`
	// fieldValue says that a field has a value.
	// +optional
	FieldValue *FieldValueProbe `json:"fieldValue,omitempty"`
}

// ConditionEqualProbe holds when the status condition of the type has the status,
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

// FieldsEqualProbe holds when both fields exist and have the same value.
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

// FieldValueProbe holds when the field, written as a string, has the value.
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
	// conditions are Progressing (how the roll-out goes), Available (do the objects pass
	// their probes) and Succeeded (set once, when the first roll-out was complete).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedPhases records the content of each phase when it was first loaded. A later
	// difference, possible only through a replaced Secret, blocks the revision.
	// +listType=map
	// +listMapKey=name
	// +optional
	ObservedPhases []ObservedPhase `json:"observedPhases,omitempty"`
}

// ObservedPhase is the content of a phase, as a digest.
type ObservedPhase struct {
	// name of the phase.
	// +required
	Name string `json:"name"`
	// digest of the phase's objects, as sha256:<64 hex>.
	// +required
	Digest string `json:"digest"`
}
