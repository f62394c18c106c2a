package action

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// owner is a revision whose objects are looked at, among all revisions of its extension.
type owner struct {
	set      *olmv1.ClusterObjectSet
	siblings []olmv1.ClusterObjectSet
}

// describeForeign returns why an object on the cluster is not the revision's; empty when it is, or when a
// later revision of the extension has taken it over. An object that is ready but somebody
// else's is not what the revision wants.
func (o owner) describeForeign(live metav1.Object) string {
	controller := metav1.GetControllerOf(live)
	if controller == nil {
		return "it exists, but is not the extension's yet"
	}
	if controller.UID == o.set.UID {
		return ""
	}

	sibling := o.sibling(controller)
	switch {
	case sibling == nil:
		return fmt.Sprintf("it belongs to %s %q", controller.Kind, controller.Name)
	case sibling.Spec.Revision < o.set.Spec.Revision, sibling.Spec.LifecycleState == olmv1.LifecycleStateArchived:
		return fmt.Sprintf("revision %s still has it", sibling.Name)
	default:
		return ""
	}
}

// isRefused reports whether an object belongs to something beside the extension, which the
// controller does not take it from.
func (o owner) isRefused(live metav1.Object) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && controller.UID != o.set.UID && o.sibling(controller) == nil
}

// sibling returns the other revision of the extension that a reference means; nil when none.
func (o owner) sibling(reference *metav1.OwnerReference) *olmv1.ClusterObjectSet {
	for i := range o.siblings {
		if o.siblings[i].UID == reference.UID {
			return &o.siblings[i]
		}
	}
	return nil
}

// phaseFailure matches how the controller reports that a phase failed. The report of one that is
// only awaited goes on with "waits for".
var phaseFailure = regexp.MustCompile(`phase "([^"]+)" \(\d+ of \d+\): ([^;]+)`)

// failureOf returns what failed in a phase, as the revision's condition says; empty when nothing
// did.
func failureOf(set *olmv1.ClusterObjectSet, phase string) string {
	progressing := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	if progressing == nil || (progressing.Reason != olmv1.ReasonRetrying && progressing.Status != metav1.ConditionFalse) ||
		progressing.Reason == olmv1.ReasonArchived {
		return ""
	}

	for _, match := range phaseFailure.FindAllStringSubmatch(progressing.Message, -1) {
		if match[1] == phase {
			return match[2]
		}
	}
	return ""
}
