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

// FieldManager is the name under which fields are applied.
const FieldManager = "mainstay"

// Owner is the revision that objects are applied for.
type Owner struct {
	// Reference names the revision; objects carry it as their controller.
	Reference metav1.OwnerReference
	// Labels are set on every object. All revisions of one extension have the same, and
	// know objects of each other by them. A set that belongs to no extension has its own.
	// May be empty.
	Labels map[string]string
	// Revision is the number of the revision.
	Revision int64
	// Siblings are the numbers of the extension's other revisions. One that gives up
	// its objects, since it is archived or deleted, has the number 0.
	Siblings map[types.UID]int64
	// Parent is what owns the revisions. Objects that it controls itself, installed
	// before there were revisions, are taken over. May be empty.
	Parent types.UID
}

// relation is what a live object is to a revision.
type relation int

const (
	// absent: there is no such object.
	absent relation = iota
	// own: the revision controls it.
	own
	// inherited: an earlier revision of the same extension controls it, or the
	// extension itself does.
	inherited
	// orphaned: a revision of the extension made it, and nothing controls it now.
	orphaned
	// superseded: a later revision of the same extension controls it.
	superseded
	// uncontrolled: someone else made it, and nothing controls it.
	uncontrolled
	// foreign: something else controls it.
	foreign
)

// relate says what a live object, nil when there is none, is to the owner.
func relate(live *unstructured.Unstructured, owner *Owner) relation {
	if live == nil {
		return absent
	}

	controller := metav1.GetControllerOf(live)
	switch {
	case controller == nil && hasLabels(live, owner.Labels) && appliedBefore(live):
		return orphaned
	case controller == nil:
		return uncontrolled
	case controller.UID == owner.Reference.UID:
		return own
	case owner.Parent != "" && controller.UID == owner.Parent:
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

// siblingNumber returns the number of the revision that controls an object, if it is
// one of the same extension. A revision that is not among the siblings is either
// gone or so new that the cache did not see it: its name ends in its number.
func (o *Owner) siblingNumber(live *unstructured.Unstructured, controller *metav1.OwnerReference) (int64, bool) {
	if controller.Kind != o.Reference.Kind || controller.APIVersion != o.Reference.APIVersion {
		return 0, false
	}
	if number, ok := o.Siblings[controller.UID]; ok {
		return number, true
	}
	if !hasLabels(live, o.Labels) {
		return 0, false
	}

	base := strings.TrimSuffix(o.Reference.Name, strconv.FormatInt(o.Revision, 10))
	if suffix, ok := strings.CutPrefix(controller.Name, base); ok {
		if number, err := strconv.ParseInt(suffix, 10, 64); err == nil {
			return number, true
		}
	}

	return 0, true
}

// verdict is what is to be done with an object.
type verdict int

const (
	// create it; it must not exist.
	create verdict = iota
	// update it; it is the revision's own.
	update
	// takeOver: update it and become its controller.
	takeOver
	// leave it to the later revision that has it.
	leave
	// await the end of its deletion.
	await
	// refuse to touch it.
	refuse
)

// decide says what is to be done with an object, from what it is to the revision and
// the protection that holds for it. An unset protection is Prevent.
func decide(live *unstructured.Unstructured, owner *Owner, protection olmv1.CollisionProtection) verdict {
	related := relate(live, owner)
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

// ownerReferences returns the references that are applied: the revision's own as the
// controller and, since there can be only one, every other controller demoted. One
// that this field manager applied needs no demotion: it goes when it is no longer
// applied.
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
		if other.UID != reference.UID && other.Controller != nil && *other.Controller && !applied(live, other.UID) {
			other.Controller = &no
			other.BlockOwnerDeletion = nil
			result = append(result, other)
		}
	}

	return result
}

// appliedBefore reports whether this field manager ever applied the object.
func appliedBefore(live *unstructured.Unstructured) bool {
	return applied(live, "")
}

// applied reports whether this field manager applied the owner reference of the UID.
func applied(live *unstructured.Unstructured, uid types.UID) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" &&
			entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), string(uid)) {
			return true
		}
	}
	return false
}

func hasLabels(live *unstructured.Unstructured, labels map[string]string) bool {
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

// describeOwner says whose a live object is.
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

// collisionAdvice says how a refused object can be made manageable.
func collisionAdvice(related relation) string {
	if related == uncontrolled {
		return "delete it, or set collisionProtection to IfNoController to have it adopted"
	}
	return "remove it from its owner first"
}
