package apply

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// FieldManager is the field manager of applied objects.
const FieldManager = "mainstay"

// FormerRevisionKind is the kind of the revisions of extensions before there were ClusterObjectSets. It
// has the same API group and version. Its objects are taken over.
const FormerRevisionKind = "ClusterExtensionRevision"

// Owner is the revision that objects are applied for.
type Owner struct {
	// Reference names the revision. Objects have it as their controller reference.
	Reference metav1.OwnerReference
	// Labels are set on every object. All revisions of one extension have the same labels, and
	// recognize each other's objects by them. A set that belongs to no extension has its own. May
	// be empty.
	Labels map[string]string
	// Revision is the number of the revision.
	Revision int64
	// Siblings maps the extension's other revisions to their numbers. A revision that releases its
	// objects, because it is archived or deleted, has the number 0.
	Siblings map[types.UID]int64
	// Parent owns the revisions. Objects that it controls itself, from before there were
	// revisions, are taken over. May be empty.
	Parent types.UID
}

// relation is the relation of a live object to a revision.
type relation int

const (
	// absent means that the object does not exist.
	absent relation = iota
	// own means that the revision controls the object.
	own
	// inherited means that an earlier revision of the same extension, or the extension
	// itself, controls the object.
	inherited
	// orphaned means that a revision of the extension created the object, and nothing
	// controls it now.
	orphaned
	// superseded means that a later revision of the same extension controls the object.
	superseded
	// uncontrolled means that another client created the object, and nothing controls it.
	uncontrolled
	// foreign means that something else controls the object.
	foreign
)

// determineRelation returns the relation of a live object to the owner. The live object is nil if
// it does not exist.
func determineRelation(live *unstructured.Unstructured, owner *Owner) relation {
	if live == nil {
		return absent
	}

	controller := metav1.GetControllerOf(live)
	switch {
	case controller == nil && hasAllLabels(live, owner.Labels) && hasBeenApplied(live):
		return orphaned
	case controller == nil:
		return uncontrolled
	case controller.UID == owner.Reference.UID:
		return own
	case owner.Parent != "" && (controller.UID == owner.Parent || owner.isFormerRevision(controller)):
		return inherited
	}

	if number, ok := owner.siblingNumber(live, controller); ok {
		if number > owner.Revision {
			return superseded
		}
		return inherited
	}

	return foreign
}

// siblingNumber returns the number of the revision that controls an object, if it belongs to the
// same extension. A revision that is not among the siblings is either gone or so new that the
// cache has not observed it: its name ends in its number.
func (o *Owner) siblingNumber(live *unstructured.Unstructured, controller *metav1.OwnerReference) (int64, bool) {
	if controller.Kind != o.Reference.Kind || controller.APIVersion != o.Reference.APIVersion {
		return 0, false
	}
	if number, ok := o.Siblings[controller.UID]; ok {
		return number, true
	}
	if !hasAllLabels(live, o.Labels) {
		return 0, false
	}

	number, _ := o.numberInName(controller.Name)
	return number, true
}

// isFormerRevision reports whether a controller is a revision of the extension from before there were
// ClusterObjectSets. Its name ends in its number. Names of revisions are unique in the cluster.
func (o *Owner) isFormerRevision(controller *metav1.OwnerReference) bool {
	if controller.Kind != FormerRevisionKind || controller.APIVersion != o.Reference.APIVersion {
		return false
	}
	_, ok := o.numberInName(controller.Name)
	return ok
}

// numberInName returns the number at the end of the name of a revision. It returns false for a revision
// of another extension.
func (o *Owner) numberInName(name string) (int64, bool) {
	base := strings.TrimSuffix(o.Reference.Name, strconv.FormatInt(o.Revision, 10))
	suffix, ok := strings.CutPrefix(name, base)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(suffix, 10, 64)
	return number, err == nil
}

// decision is what is done with an object.
type decision int

const (
	// create the object, which must not exist.
	create decision = iota
	// update the object, which the revision controls.
	update
	// takeOver updates the object and makes the revision its controller.
	takeOver
	// leave the object to the later revision that controls it.
	leave
	// await the end of the object's deletion.
	await
	// refuse to change the object.
	refuse
)

// decideAction returns what is done with an object, from its relation to the revision and its
// collision protection. Unset protection means Prevent.
func decideAction(live *unstructured.Unstructured, owner *Owner, protection olmv1.CollisionProtection) decision {
	related := determineRelation(live, owner)
	switch {
	case related == absent:
		return create
	case related == superseded:
		return leave
	case live.GetDeletionTimestamp() != nil:
		return await
	}

	switch related {
	case own:
		return update
	case inherited, orphaned:
		return takeOver
	case uncontrolled:
		if protection == olmv1.CollisionProtectionIfNoController || protection == olmv1.CollisionProtectionNone {
			return takeOver
		}
	case foreign:
		if protection == olmv1.CollisionProtectionNone {
			return takeOver
		}
	}

	return refuse
}

// ownerReferences returns the references to apply: the revision as the controller and, because
// there can be only one, every other controller demoted. A reference that this field manager
// applied needs no demotion: it is removed when it is no longer applied.
func ownerReferences(live *unstructured.Unstructured, owner *Owner) []metav1.OwnerReference {
	yes, no := true, false
	reference := owner.Reference
	reference.Controller = &yes
	reference.BlockOwnerDeletion = &yes
	result := []metav1.OwnerReference{reference}
	if live == nil {
		return result
	}

	for _, other := range live.GetOwnerReferences() {
		if other.UID != reference.UID && other.Controller != nil && *other.Controller && !hasAppliedReference(live, other.UID) {
			other.Controller = &no
			other.BlockOwnerDeletion = nil
			result = append(result, other)
		}
	}

	return result
}

// hasBeenApplied reports whether this field manager ever applied the object.
func hasBeenApplied(live *unstructured.Unstructured) bool {
	return hasAppliedReference(live, "")
}

// hasAppliedReference reports whether this field manager applied the owner reference with the UID.
func hasAppliedReference(live *unstructured.Unstructured, uid types.UID) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" &&
			entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), string(uid)) {
			return true
		}
	}
	return false
}

func hasAllLabels(live *unstructured.Unstructured, labels map[string]string) bool {
	if len(labels) == 0 {
		return false
	}

	have := live.GetLabels()
	for key, value := range labels {
		if have[key] != value {
			return false
		}
	}
	return true
}

// describeOwner describes the owner of a live object.
func describeOwner(live *unstructured.Unstructured) string {
	extension := ""
	if labels := live.GetLabels(); labels[olmv1.LabelOwnerKind] != "" && labels[olmv1.LabelOwnerName] != "" {
		extension = fmt.Sprintf("%s %q", labels[olmv1.LabelOwnerKind], labels[olmv1.LabelOwnerName])
	}

	controller := metav1.GetControllerOf(live)
	switch {
	case controller == nil && extension == "":
		return "not controlled by anything"
	case controller == nil:
		return "labelled as part of " + extension
	case extension == "" || extension == fmt.Sprintf("%s %q", controller.Kind, controller.Name):
		return fmt.Sprintf("controlled by %s %q", controller.Kind, controller.Name)
	default:
		return fmt.Sprintf("controlled by %s %q of %s", controller.Kind, controller.Name, extension)
	}
}

// collisionAdvice returns how a refused object can be made manageable.
func collisionAdvice(related relation) string {
	if related == uncontrolled {
		return "delete it, or set collisionProtection to IfNoController to have it adopted"
	}
	return "remove it from its owner first"
}
