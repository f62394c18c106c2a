package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// The controllers label the namespaces that groups target and the service accounts of groups. The ClusterRoles of a
// group and of its APIs contain all verbs for resources that only operators define, hence escalate and bind.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=escalate;bind

// groups reconciles OperatorGroups.
type groups struct {
	client client.Client
	roles  roleWriter
	// marked reads the labelled ClusterRoles of groups from the cache.
	marked client.Reader
	clock  clock.PassiveClock
}

func (r *groups) newReconciler() *reconcile.ObjectReconciler[*operatorsv1.OperatorGroup, *facts, *decision] {
	return &reconcile.ObjectReconciler[*operatorsv1.OperatorGroup, *facts, *decision]{
		Client: r.client, New: func() *operatorsv1.OperatorGroup { return &operatorsv1.OperatorGroup{} },
		Gather: r.gatherFacts, Decide: decide, Execute: r.execute, Report: reportStatus, Forget: r.deleteRoles,
	}
}

// gatherFacts reads the other groups and the members of the group's namespace, its service account and, if it selects
// namespaces by label, their labels.
func (r *groups) gatherFacts(ctx context.Context, group *operatorsv1.OperatorGroup) (*facts, error) {
	f := &facts{now: r.clock.Now(), namespaces: map[string]labels.Set{}}
	var all operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &all, client.InNamespace(group.Namespace)); err != nil {
		return f, fmt.Errorf("listing the OperatorGroups of namespace %s: %w", group.Namespace, err)
	}

	f.isAlone = len(all.Items) == 1
	if name := group.Spec.ServiceAccountName; name != "" {
		account := newPartialMetadata(serviceAccountKind)
		switch err := r.client.Get(ctx, client.ObjectKey{Namespace: group.Namespace, Name: name}, account); {
		case err == nil:
			f.account = account
		case !apierrors.IsNotFound(err):
			return f, fmt.Errorf("reading ServiceAccount %s/%s: %w", group.Namespace, name, err)
		}
	}

	if len(group.Spec.TargetNamespaces) == 0 && !membership.SelectsAll(group.Spec.Selector) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(namespaceKind)
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return f, fmt.Errorf("listing namespaces: %w", err)
		}
		for i := range list.Items {
			f.namespaces[list.Items[i].Name] = list.Items[i].Labels
		}
	}

	var members v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &members, client.InNamespace(group.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", group.Namespace, err)
	}

	f.members = members.Items
	return f, nil
}

// execute labels the service account, annotates the members, writes the ClusterRoles, and prunes the list of APIs.
func (r *groups) execute(ctx context.Context, group *operatorsv1.OperatorGroup, f *facts, d *decision) error {
	if f.account != nil && f.account.Labels[csvinfo.LabelManaged] != "true" {
		if err := r.labelAccount(ctx, f.account); err != nil {
			return err
		}
	}
	if d.invalid != nil {
		return reconcile.Stop("", fmt.Errorf("OperatorGroup %s/%s: %w", group.Namespace, group.Name, d.invalid))
	}

	for csv, annotations := range d.annotations {
		if err := patchMetadata(ctx, r.client, csv, map[string]any{"annotations": annotations}); err != nil {
			return fmt.Errorf("annotating ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
		}
	}

	return errors.Join(r.roles.ensureRoles(ctx, d.roles), r.setProvidedAPIs(ctx, group, d.providedAPIs))
}

// labelAccount labels the service account of a group as managed by OLM.
func (r *groups) labelAccount(ctx context.Context, account *metav1.PartialObjectMetadata) error {
	// The UID keeps the apply from creating an account that was deleted in the meantime.
	marked := corev1ac.ServiceAccount(account.Name, account.Namespace).WithUID(account.UID).WithLabels(map[string]string{csvinfo.LabelManaged: "true"})
	err := r.client.Apply(ctx, marked, client.FieldOwner(FieldManager), client.ForceOwnership)
	if reconcile.IgnoreStale(err) != nil { // An account that was deleted or recreated triggers a reconcile.
		return fmt.Errorf("labelling ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	return nil
}

// setProvidedAPIs sets the list of APIs in the group's annotation; nil keeps it. The resource version protects an API
// that is added to the list concurrently.
func (r *groups) setProvidedAPIs(ctx context.Context, group *operatorsv1.OperatorGroup, apis *string) error {
	if apis == nil {
		return nil
	}

	metadata := map[string]any{
		"resourceVersion": group.ResourceVersion,
		"annotations":     map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: *apis},
	}
	if err := patchMetadata(ctx, r.client, group, metadata); reconcile.IgnoreStale(err) != nil { // The change triggers a reconcile.
		return fmt.Errorf("pruning the APIs of OperatorGroup %s/%s: %w", group.Namespace, group.Name, err)
	}

	return nil
}

// reportStatus sets the status of a group. A changed service account lets permanently failed installations be retried.
func reportStatus(group *operatorsv1.OperatorGroup, _ *facts, d *decision, _ error) []reconcile.Event {
	if d != nil {
		group.Status = d.status
	}
	return nil
}

// patchMetadata merges metadata into that of an object on the API server. It returns nil if the object does not exist.
func patchMetadata(ctx context.Context, c client.Client, object client.Object, metadata map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	target, _ := object.DeepCopyObject().(client.Object)
	return client.IgnoreNotFound(c.Patch(ctx, target, client.RawPatch(types.MergePatchType, data)))
}

// deleteRoles deletes the ClusterRoles of a deleted group.
func (r *groups) deleteRoles(ctx context.Context, key types.NamespacedName) error {
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
func (r *groups) enqueueGroupsOfNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	requests := r.listRequests(ctx, func(*operatorsv1.OperatorGroup) bool { return true }, client.InNamespace(object.GetNamespace()))
	if _, ok := object.(*operatorsv1.OperatorGroup); ok {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}) // It may be deleted.
	}
	return requests
}

// enqueueGroupsWithSelector is a map function that returns the groups whose targets may change with the labels of a
// namespace.
func (r *groups) enqueueGroupsWithSelector(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(g *operatorsv1.OperatorGroup) bool {
		return len(g.Spec.TargetNamespaces) == 0 && !membership.SelectsAll(g.Spec.Selector)
	})
}

// enqueueGroupsOfAccount is a map function that returns the groups that name a service account.
func (r *groups) enqueueGroupsOfAccount(ctx context.Context, account client.Object) []ctrl.Request {
	return r.listRequests(ctx, func(g *operatorsv1.OperatorGroup) bool { return g.Spec.ServiceAccountName == account.GetName() },
		client.InNamespace(account.GetNamespace()))
}

func (r *groups) listRequests(ctx context.Context, matters func(*operatorsv1.OperatorGroup) bool, in ...client.ListOption) []ctrl.Request {
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
