package group

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
)

// namespaceReconciler labels namespaces with the groups that target them.
type namespaceReconciler struct {
	client client.Client
}

// Reconcile sets and removes the group labels of one namespace.
func (r *namespaceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	namespace := newPartialMetadata(namespaceKind)
	if err := r.client.Get(ctx, req.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	var list operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing OperatorGroups: %w", err)
	}

	changes := labelChanges(namespace, list.Items)
	if len(changes) == 0 {
		return ctrl.Result{}, nil
	}

	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": changes}})
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, data)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("labelling namespace %s with its OperatorGroups: %w", namespace.Name, err)
	}

	return ctrl.Result{}, nil
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
