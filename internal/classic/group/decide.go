package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// facts determine what must be done for a group.
type facts struct {
	now time.Time
	// isAlone is true when the namespace has no other group.
	isAlone bool
	// account is the service account that the group names; nil when it does not exist.
	account *metav1.PartialObjectMetadata
	// namespaces has the labels of all namespaces by name.
	namespaces map[string]labels.Set
	// members are the ClusterServiceVersions of the namespace.
	members []v1alpha1.ClusterServiceVersion
}

// decision is what must be done for a group. If the status changes, nothing else is done: the update triggers a
// reconcile for the rest.
type decision struct {
	status operatorsv1.OperatorGroupStatus
	// invalid is why the targets cannot be determined.
	invalid error
	// annotations are the new annotations of members that differ from the group.
	annotations map[*v1alpha1.ClusterServiceVersion]map[string]string
	// roles are the ClusterRoles of the group.
	roles []rbacv1.ClusterRole
	// providedAPIs is the new list of APIs in the group's annotation; nil keeps the list.
	providedAPIs *string
}

// decide returns what must be done for a group.
func decide(group *operatorsv1.OperatorGroup, f *facts) *decision {
	d := &decision{}
	d.status, d.invalid = computeStatus(group, f)
	if d.invalid != nil || !equality.Semantic.DeepEqual(group.Status, d.status) {
		return d
	}

	if f.isAlone {
		// Of several groups none applies: they would overwrite each other's annotations.
		d.annotations = changedAnnotations(group, f.members)
	}

	d.roles = newGroupRoles(group, listedAndProvidedAPIs(group, f.members))
	text, isListed := group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation]
	if kept, ok := membership.PruneProvidedAPIs(group, f.members); ok && isListed && csvinfo.JoinAPIs(kept) != text {
		pruned := csvinfo.JoinAPIs(kept)
		d.providedAPIs = &pruned
	}

	return d
}

// changedAnnotations returns the annotations of the members that differ from the group.
func changedAnnotations(group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) map[*v1alpha1.ClusterServiceVersion]map[string]string {
	changed := map[*v1alpha1.ClusterServiceVersion]map[string]string{}
	for i := range members {
		csv := &members[i]
		if annotations, _ := membership.WithGroupAnnotations(csv, group); !csvinfo.IsCopied(csv) && !maps.Equal(annotations, csv.Annotations) {
			changed[csv] = annotations
		}
	}
	return changed
}

// listedAndProvidedAPIs returns the APIs that a group lists or that its members provide. The ClusterRoles of the group
// aggregate the access to them.
func listedAndProvidedAPIs(group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) csvinfo.APIs {
	apis := membership.ListedAPIs(group)
	for i := range members {
		if provided, err := csvinfo.ProvidedAPIs(&members[i]); err == nil && !csvinfo.IsCopied(&members[i]) {
			apis = apis.Union(provided)
		}
	}
	return apis
}

// computeStatus returns the status of a group. The error is why its targets cannot be determined; the status then
// keeps the current ones.
func computeStatus(group *operatorsv1.OperatorGroup, f *facts) (operatorsv1.OperatorGroupStatus, error) {
	status := *group.Status.DeepCopy()
	setOrRemoveCondition(&status.Conditions, !f.isAlone, metav1.Condition{
		Type: operatorsv1.MultipleOperatorGroupCondition, Reason: operatorsv1.MultipleOperatorGroupsReason,
		Message: "Multiple OperatorGroup found in the same namespace",
	}, f.now)
	name := group.Spec.ServiceAccountName
	setOrRemoveCondition(&status.Conditions, name != "" && f.account == nil, metav1.Condition{
		Type: operatorsv1.OperatorGroupServiceAccountCondition, Reason: operatorsv1.OperatorGroupServiceAccountReason,
		Message: fmt.Sprintf("ServiceAccount %s not found", name),
	}, f.now)
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
		status.LastUpdated = &metav1.Time{Time: f.now}
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
