package group

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// facts are the input for the status of a group.
type facts struct {
	// isAlone is true when the namespace has no other group.
	isAlone bool
	// account is the service account that the group names; nil when it does not exist.
	account *metav1.PartialObjectMetadata
	// namespaces has the labels of all namespaces by name.
	namespaces map[string]labels.Set
}

// computeStatus returns the status of a group. The error is why its targets cannot be determined; the status then
// keeps the current ones.
func computeStatus(group *operatorsv1.OperatorGroup, f facts, now time.Time) (operatorsv1.OperatorGroupStatus, error) {
	status := *group.Status.DeepCopy()
	setOrRemoveCondition(&status.Conditions, !f.isAlone, metav1.Condition{
		Type: operatorsv1.MultipleOperatorGroupCondition, Reason: operatorsv1.MultipleOperatorGroupsReason,
		Message: "Multiple OperatorGroup found in the same namespace",
	}, now)
	name := group.Spec.ServiceAccountName
	setOrRemoveCondition(&status.Conditions, name != "" && f.account == nil, metav1.Condition{
		Type: operatorsv1.OperatorGroupServiceAccountCondition, Reason: operatorsv1.OperatorGroupServiceAccountReason,
		Message: fmt.Sprintf("ServiceAccount %s not found", name),
	}, now)
	status.ServiceAccountRef = nil
	if name != "" && f.account != nil {
		status.ServiceAccountRef = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "ServiceAccount", Namespace: group.Namespace, Name: name, UID: f.account.UID,
		}
	}

	targets, err := membership.Targets(group.Spec, f.namespaces)
	isNew := status.LastUpdated == nil
	if err == nil && !slices.Equal(targets, slices.Sorted(slices.Values(status.Namespaces))) {
		status.Namespaces, isNew = targets, true
	}
	if isNew {
		status.LastUpdated = &metav1.Time{Time: now}
	}

	return status, err
}

// setOrRemoveCondition sets a condition to True, or removes it.
func setOrRemoveCondition(conditions *[]metav1.Condition, isTrue bool, condition metav1.Condition, now time.Time) {
	if !isTrue {
		meta.RemoveStatusCondition(conditions, condition.Type)
		return
	}
	condition.Status, condition.LastTransitionTime = metav1.ConditionTrue, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, condition)
}
