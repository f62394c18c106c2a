package action

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// revisionOwner is a revision and all revisions of its extension.
type revisionOwner struct {
	set      *olmv1.ClusterObjectSet
	siblings []olmv1.ClusterObjectSet
}

// describeForeignOwner returns why the revision does not own an object on the cluster. It
// is empty if the revision owns the object or a later revision of the extension has taken
// it over. A ready object of another owner does not fulfill the revision.
func (o revisionOwner) describeForeignOwner(live metav1.Object) string {
	controller := metav1.GetControllerOf(live)
	if controller == nil {
		return "it exists, but the extension does not own it yet"
	}
	if controller.UID == o.set.UID {
		return ""
	}

	sibling := o.findSibling(controller)
	switch {
	case sibling == nil:
		return fmt.Sprintf("it belongs to %s %q", controller.Kind, controller.Name)
	case sibling.Spec.Revision < o.set.Spec.Revision, sibling.Spec.LifecycleState == olmv1.LifecycleStateArchived:
		return fmt.Sprintf("revision %s still owns it", sibling.Name)
	default:
		return ""
	}
}

// isOwnedByOthers reports whether the object is controlled by an owner outside of the
// extension. The controller does not take over such objects.
func (o revisionOwner) isOwnedByOthers(live metav1.Object) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && controller.UID != o.set.UID && o.findSibling(controller) == nil
}

// findSibling returns the other revision of the extension that a reference points to, or
// nil.
func (o revisionOwner) findSibling(reference *metav1.OwnerReference) *olmv1.ClusterObjectSet {
	for i := range o.siblings {
		if o.siblings[i].UID == reference.UID {
			return &o.siblings[i]
		}
	}
	return nil
}

// phaseFailurePattern matches the message of the controller about a failed phase. The
// message about a waiting phase continues with "waits for".
var phaseFailurePattern = regexp.MustCompile(`phase "([^"]+)" \(\d+ of \d+\): ([^;]+)`)

// findPhaseFailure returns the failure of a phase according to the revision's conditions.
// It is empty if there is none.
func findPhaseFailure(set *olmv1.ClusterObjectSet, phase string) string {
	progressing := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	if progressing == nil || (progressing.Reason != olmv1.ReasonRetrying && progressing.Status != metav1.ConditionFalse) ||
		progressing.Reason == olmv1.ReasonArchived {
		return ""
	}

	for _, match := range phaseFailurePattern.FindAllStringSubmatch(progressing.Message, -1) {
		if match[1] == phase {
			return match[2]
		}
	}
	return ""
}
