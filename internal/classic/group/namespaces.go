package group

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// namespaceLabels labels namespaces with the groups that target them.
type namespaceLabels struct {
	client client.Client
}

func (r *namespaceLabels) newReconciler() *reconcile.ObjectReconciler[*metav1.PartialObjectMetadata, []operatorsv1.OperatorGroup, map[string]any] {
	return &reconcile.ObjectReconciler[*metav1.PartialObjectMetadata, []operatorsv1.OperatorGroup, map[string]any]{
		Client: r.client, New: func() *metav1.PartialObjectMetadata { return newPartialMetadata(namespaceKind) },
		Gather: r.listGroups, Decide: labelChanges, Execute: r.patchLabels,
	}
}

func (r *namespaceLabels) listGroups(ctx context.Context, _ *metav1.PartialObjectMetadata) ([]operatorsv1.OperatorGroup, error) {
	var list operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatorGroups: %w", err)
	}
	return list.Items, nil
}

func (r *namespaceLabels) patchLabels(ctx context.Context, namespace *metav1.PartialObjectMetadata, _ []operatorsv1.OperatorGroup, changes map[string]any) error {
	if len(changes) == 0 {
		return nil
	}
	if err := patchMetadata(ctx, r.client, namespace, map[string]any{"labels": changes}); err != nil {
		return fmt.Errorf("labelling namespace %s with its OperatorGroups: %w", namespace.Name, err)
	}
	return nil
}

// labelChanges returns the changes of a namespace's labels as a merge patch: an empty string adds a label, nil removes
// it. A namespace has one label for each group that targets it.
func labelChanges(namespace *metav1.PartialObjectMetadata, all []operatorsv1.OperatorGroup) map[string]any {
	changes := map[string]any{}
	for key := range namespace.Labels {
		if strings.HasPrefix(key, operatorsv1.OperatorGroupLabelPrefix) {
			changes[key] = nil
		}
	}

	for i := range all {
		group := &all[i]
		if group.NamespaceLabel() == "" || !slices.Contains(group.Status.Namespaces, namespace.Name) {
			continue
		}
		if value, ok := namespace.Labels[group.NamespaceLabel()]; ok && value == "" {
			delete(changes, group.NamespaceLabel())
			continue
		}
		changes[group.NamespaceLabel()] = ""
	}

	return changes
}

// enqueueTargetNamespaces is a map function that returns the target namespaces of a group.
func enqueueTargetNamespaces(_ context.Context, object client.Object) []ctrl.Request {
	group, ok := object.(*operatorsv1.OperatorGroup)
	if !ok || group.IsGlobal() {
		return nil
	}

	var requests []ctrl.Request
	for _, name := range group.Status.Namespaces {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	}

	return requests
}
