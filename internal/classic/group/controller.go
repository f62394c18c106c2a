package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// The controllers label the namespaces that groups target and the service accounts of groups. The ClusterRoles of a
// group and of its APIs contain all verbs for resources that only operators define, hence escalate and bind.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=escalate;bind

// groupReconciler reconciles OperatorGroups.
type groupReconciler struct {
	client client.Client
	roles  roleWriter
	// marked reads the labelled ClusterRoles of groups from the cache.
	marked client.Reader
	clock  clock.PassiveClock
}

// Reconcile reconciles one group. If the status changes, it only patches the status. That update triggers another
// reconcile for the rest.
func (r *groupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	group := &operatorsv1.OperatorGroup{}
	switch err := r.client.Get(ctx, req.NamespacedName, group); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, r.deleteRoles(ctx, req.NamespacedName)
	case err != nil:
		return ctrl.Result{}, err
	case !group.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	}

	isAlone, err := r.isAlone(ctx, group)
	if err != nil {
		return ctrl.Result{}, err
	}

	changed, err := r.updateStatus(ctx, group, isAlone)
	if err != nil || changed {
		return ctrl.Result{}, err
	}

	var members v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &members, client.InNamespace(group.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", group.Namespace, err)
	}

	if isAlone {
		// Of several groups none applies: they would overwrite each other's annotations.
		if err := r.annotateMembers(ctx, group, members.Items); err != nil {
			return ctrl.Result{}, err
		}
	}

	return ctrl.Result{}, errors.Join(r.ensureRoles(ctx, group, members.Items), r.pruneProvidedAPIs(ctx, group, members.Items))
}

func (r *groupReconciler) isAlone(ctx context.Context, group *operatorsv1.OperatorGroup) (bool, error) {
	var list operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &list, client.InNamespace(group.Namespace)); err != nil {
		return false, fmt.Errorf("listing the OperatorGroups of namespace %s: %w", group.Namespace, err)
	}
	return len(list.Items) == 1, nil
}

// updateStatus patches the status of a group and reports whether it changed. A changed service account lets
// permanently failed installations be retried.
func (r *groupReconciler) updateStatus(ctx context.Context, group *operatorsv1.OperatorGroup, isAlone bool) (changed bool, err error) {
	f := facts{isAlone: isAlone, namespaces: map[string]labels.Set{}}
	if name := group.Spec.ServiceAccountName; name != "" {
		if f.account, err = r.ensureAccountLabel(ctx, group.Namespace, name); err != nil {
			return false, err
		}
	}

	if len(group.Spec.TargetNamespaces) == 0 && !membership.SelectsAll(group.Spec.Selector) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(namespaceKind)
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing namespaces: %w", err)
		}
		for i := range list.Items {
			f.namespaces[list.Items[i].Name] = list.Items[i].Labels
		}
	}

	status, invalid := computeStatus(group, f, r.clock.Now())
	if invalid != nil {
		invalid = reconcile.TerminalError(fmt.Errorf("OperatorGroup %s/%s: %w", group.Namespace, group.Name, invalid))
	}
	if equality.Semantic.DeepEqual(group.Status, status) {
		return false, invalid
	}

	before := group.DeepCopy()
	group.Status = status
	err = r.client.Status().Patch(ctx, group, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // The change triggers a reconcile.
		return false, fmt.Errorf("writing the status of OperatorGroup %s/%s: %w", group.Namespace, group.Name, err)
	}

	return true, invalid
}

// ensureAccountLabel labels the service account of a group as managed by OLM and returns it; nil when it does not exist.
func (r *groupReconciler) ensureAccountLabel(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	account := newPartialMetadata(serviceAccountKind)
	switch err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, account); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ServiceAccount %s/%s: %w", namespace, name, err)
	}

	if account.Labels[csvinfo.LabelManaged] == "true" {
		return account, nil
	}

	// The UID keeps the apply from creating an account that was deleted in the meantime.
	marked := corev1ac.ServiceAccount(name, namespace).WithUID(account.UID).WithLabels(map[string]string{csvinfo.LabelManaged: "true"})
	switch err := r.client.Apply(ctx, marked, client.FieldOwner(FieldManager), client.ForceOwnership); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil // It was deleted or recreated. That change triggers a reconcile.
	case err != nil:
		return nil, fmt.Errorf("labelling ServiceAccount %s/%s: %w", namespace, name, err)
	}

	return account, nil
}

// annotateMembers sets the group's annotations on the ClusterServiceVersions of the namespace.
func (r *groupReconciler) annotateMembers(ctx context.Context, group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) error {
	for i := range members {
		csv := &members[i]
		annotations, _ := membership.WithGroupAnnotations(csv, group)
		if csvinfo.IsCopied(csv) || maps.Equal(annotations, csv.Annotations) {
			continue
		}
		if err := r.patchMetadata(ctx, csv, map[string]any{"annotations": annotations}); err != nil {
			return fmt.Errorf("annotating ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
		}
	}

	return nil
}

// ensureRoles ensures the ClusterRoles of a group, which aggregate the access to all APIs that its operators provide
// or that it lists.
func (r *groupReconciler) ensureRoles(ctx context.Context, group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) error {
	apis := membership.ListedAPIs(group)
	for i := range members {
		if provided, err := csvinfo.ProvidedAPIs(&members[i]); err == nil && !csvinfo.IsCopied(&members[i]) {
			apis = apis.Union(provided)
		}
	}

	for _, role := range newGroupRoles(group, apis) {
		if err := r.roles.ensureRole(ctx, &role); err != nil {
			return err
		}
	}
	return nil
}

// pruneProvidedAPIs removes the APIs that no operator provides any more from the group's annotation.
func (r *groupReconciler) pruneProvidedAPIs(ctx context.Context, group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) error {
	text, isListed := group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation]
	kept, ok := membership.PruneProvidedAPIs(group, members)
	if !ok || !isListed || csvinfo.JoinAPIs(kept) == text {
		return nil
	}

	// The resource version protects an API that is added to the list concurrently.
	metadata := map[string]any{
		"resourceVersion": group.ResourceVersion,
		"annotations":     map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: csvinfo.JoinAPIs(kept)},
	}
	if err := r.patchMetadata(ctx, group, metadata); err != nil && !apierrors.IsConflict(err) { // The change triggers a reconcile.
		return fmt.Errorf("pruning the APIs of OperatorGroup %s/%s: %w", group.Namespace, group.Name, err)
	}

	return nil
}

// patchMetadata merges metadata into that of an object. It returns nil if the object does not exist.
func (r *groupReconciler) patchMetadata(ctx context.Context, object client.Object, metadata map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)))
}

// deleteRoles deletes the ClusterRoles of a deleted group.
func (r *groupReconciler) deleteRoles(ctx context.Context, key types.NamespacedName) error {
	var list rbacv1.ClusterRoleList
	if err := r.marked.List(ctx, &list, client.MatchingLabels(ownerLabels(key.Namespace, key.Name))); err != nil {
		return fmt.Errorf("listing the ClusterRoles of OperatorGroup %s: %w", key, err)
	}

	for i := range list.Items {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, &list.Items[i])); err != nil {
			return fmt.Errorf("deleting ClusterRole %s of OperatorGroup %s: %w", list.Items[i].Name, key, err)
		}
	}
	return nil
}

// enqueueGroupsOfNamespace is a map function that returns the groups in the namespace of an object.
func (r *groupReconciler) enqueueGroupsOfNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	requests := r.listRequests(ctx, func(*operatorsv1.OperatorGroup) bool { return true }, client.InNamespace(object.GetNamespace()))
	if _, ok := object.(*operatorsv1.OperatorGroup); ok {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}) // It may be deleted.
	}
	return requests
}

// enqueueGroupsWithSelector is a map function that returns the groups whose targets may change with the labels of a
// namespace.
func (r *groupReconciler) enqueueGroupsWithSelector(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(g *operatorsv1.OperatorGroup) bool {
		return len(g.Spec.TargetNamespaces) == 0 && !membership.SelectsAll(g.Spec.Selector)
	})
}

// enqueueGroupsOfAccount is a map function that returns the groups that name a service account.
func (r *groupReconciler) enqueueGroupsOfAccount(ctx context.Context, account client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(g *operatorsv1.OperatorGroup) bool { return g.Spec.ServiceAccountName == account.GetName() },
		client.InNamespace(account.GetNamespace()))
}

func (r *groupReconciler) listRequests(ctx context.Context, matters func(*operatorsv1.OperatorGroup) bool, in ...client.ListOption) []ctrl.Request {
	var list operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &list, append(in, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the OperatorGroups to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if g := &list.Items[i]; matters(g) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
		}
	}

	return requests
}

// enqueueGroupOfRole is a map function that returns the group for which a ClusterRole was created.
func enqueueGroupOfRole(_ context.Context, role client.Object) []ctrl.Request {
	roleLabels := role.GetLabels()
	if roleLabels[csvinfo.LabelOwnerKind] != operatorsv1.OperatorGroupKind {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: roleLabels[csvinfo.LabelOwnerNamespace], Name: roleLabels[csvinfo.LabelOwner]}}}
}
