// Package membership has the facts about an OperatorGroup and its members, the ClusterServiceVersions of its
// namespace: which group applies, which namespaces it targets, which APIs it provides, and which rights of its operators
// hold in the target namespaces.
//
// The controllers of OperatorGroups, ClusterServiceVersions and copied CSVs use it. Its functions are pure, except that
// OnlyGroupOf reads the group of a namespace.
package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

var (
	// ErrNone is the error for a namespace without an OperatorGroup.
	ErrNone = errors.New("the namespace has no OperatorGroup")
	// ErrSeveral is the error for a namespace with more than one OperatorGroup, of which none applies.
	ErrSeveral = errors.New("the namespace has more than one OperatorGroup")
)

// OnlyGroupOf returns the OperatorGroup of a namespace. The error is ErrNone or ErrSeveral when there is not
// exactly one.
func OnlyGroupOf(ctx context.Context, c client.Reader, namespace string) (*operatorsv1.OperatorGroup, error) {
	var list operatorsv1.OperatorGroupList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the OperatorGroups of namespace %s: %w", namespace, err)
	}

	switch len(list.Items) {
	case 0:
		return nil, fmt.Errorf("namespace %s: %w", namespace, ErrNone)
	case 1:
		return &list.Items[0], nil
	}

	return nil, fmt.Errorf("namespace %s: %w", namespace, ErrSeveral)
}

// ServiceAccountOf returns the service account that installs operators for a group. It returns nil if the group names
// none. It returns an error if the account that the group names is not in the status: it does not exist, or the
// controller of OperatorGroups has not seen it yet. Users match the message.
func ServiceAccountOf(group *operatorsv1.OperatorGroup) (*corev1.ObjectReference, error) {
	name := group.Spec.ServiceAccountName
	ref := group.Status.ServiceAccountRef
	switch {
	case name == "":
		return nil, nil
	case ref == nil || ref.Name != name:
		return nil, fmt.Errorf("please make sure the service account exists. sa=%s operatorgroup=%s/%s", name, group.Namespace, group.Name)
	default:
		return ref.DeepCopy(), nil
	}
}

// Targets returns the sorted target namespaces of a group. namespaces has the labels of all namespaces by name.
// A single empty name means all namespaces.
func Targets(spec operatorsv1.OperatorGroupSpec, namespaces map[string]labels.Set) ([]string, error) {
	if len(spec.TargetNamespaces) > 0 {
		names := sets.New(spec.TargetNamespaces...)
		if names.Has(metav1.NamespaceAll) {
			return nil, fmt.Errorf("TargetNamespaces cannot contain NamespaceAll: %v", spec.TargetNamespaces)
		}
		return sortedNames(names), nil
	}

	if SelectsAll(spec.Selector) {
		return []string{metav1.NamespaceAll}, nil
	}

	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}

	names := sets.Set[string]{}
	for name, set := range namespaces {
		if selector.Matches(set) {
			names.Insert(name)
		}
	}

	return sortedNames(names), nil
}

// SelectsAll reports whether the selector of a group selects all namespaces.
func SelectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}

// WithGroupAnnotations returns the annotations of a ClusterServiceVersion with those of its group. While the group has no
// targets, olm.targetNamespaces stays unchanged. changed is true when the annotations differ from the group, even
// in olm.targetNamespaces while that stays unchanged.
func WithGroupAnnotations(csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) (annotations map[string]string, changed bool) {
	wanted := map[string]string{
		csvinfo.AnnotationOperatorGroup:     group.Name,
		csvinfo.AnnotationOperatorNamespace: group.Namespace,
	}
	if len(group.Status.Namespaces) == 0 {
		changed = csv.Annotations[csvinfo.AnnotationTargetNamespaces] != ""
	} else {
		targets := slices.Sorted(slices.Values(group.Status.Namespaces))
		wanted[csvinfo.AnnotationTargetNamespaces] = strings.Join(targets, ",")
	}

	if csvinfo.HasLabels(csv.Annotations, wanted) {
		return csv.Annotations, changed
	}
	return csvinfo.MergeLabels(csv.Annotations, wanted), true
}

// TargetsOf returns the namespaces in the annotation olm.targetNamespaces of a ClusterServiceVersion. ok is false when
// it has no such annotation.
func TargetsOf(csv metav1.Object) (targets []string, ok bool) {
	text, ok := csv.GetAnnotations()[csvinfo.AnnotationTargetNamespaces]
	if !ok {
		return nil, false
	}
	return strings.Split(text, ","), true
}
