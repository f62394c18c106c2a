package copied

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// copyRoles grants an operator its rights in the namespaces with an up-to-date copy: those of its roles that
// membership.RightsOf accepts. The granted roles are owned by the copy and deleted with it.
func (a *copyRun) copyRoles(ctx context.Context) error {
	ownedByCSV := []client.ListOption{
		client.InNamespace(a.source.Namespace), client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(a.source.Namespace, a.source.Name)},
	}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(a.marked.List(ctx, &roles, ownedByCSV...), a.marked.List(ctx, &bindings, ownedByCSV...)); err != nil {
		return fmt.Errorf("listing the roles of ClusterServiceVersion %s/%s: %w", a.source.Namespace, a.source.Name, err)
	}

	// The owner reference is required, but it proves nothing: see membership.RightsOf.
	roles.Items = slices.DeleteFunc(roles.Items, func(r rbacv1.Role) bool { return !csvinfo.IsOwner(r.OwnerReferences, a.source) })
	bindings.Items = slices.DeleteFunc(bindings.Items, func(b rbacv1.RoleBinding) bool { return !csvinfo.IsOwner(b.OwnerReferences, a.source) })
	rights := membership.RightsOf(a.source, roles.Items, bindings.Items)
	rights.Log(ctrl.LoggerFrom(ctx))
	for namespace, uid := range a.uids {
		if err := a.copyRights(ctx, rights, namespace, uid); err != nil {
			return err
		}
	}

	return nil
}

// copyRights copies Roles to a namespace, and the RoleBindings of Roles that are up to date there. It does not bind a
// Role of the same name that another client created.
func (a *copyRun) copyRights(ctx context.Context, rights membership.Rights, namespace string, uid types.UID) error {
	isUpToDate := map[string]bool{}
	for _, role := range rights.Roles {
		copied, err := a.copyRole(ctx, role, namespace, uid)
		if err != nil {
			return fmt.Errorf("copying Role %s/%s to namespace %s: %w", role.Namespace, role.Name, namespace, err)
		}
		if !copied {
			ctrl.LoggerFrom(ctx).Info("Not binding a Role for an operator: it is not a copy, or has just changed", "role", namespace+"/"+role.Name)
		}
		isUpToDate[role.Name] = copied
	}

	for _, binding := range rights.Bindings {
		if !isUpToDate[binding.RoleRef.Name] {
			continue
		}
		if err := a.copyBinding(ctx, binding, namespace, uid); err != nil {
			return fmt.Errorf("copying RoleBinding %s/%s to namespace %s: %w", binding.Namespace, binding.Name, namespace, err)
		}
	}

	return nil
}

// newObjectMeta returns the metadata for the copy of a Role or RoleBinding.
func (a *copyRun) newObjectMeta(object client.Object, namespace string, uid types.UID) metav1.ObjectMeta {
	owner := &v1alpha1.ClusterServiceVersion{}
	owner.Namespace, owner.Name, owner.UID = namespace, a.source.Name, uid
	return metav1.ObjectMeta{
		Namespace: namespace, Name: object.GetName(),
		Labels: csvinfo.MergeLabels(object.GetLabels(), csvinfo.OwnerLabels(namespace, a.source.Name), map[string]string{
			csvinfo.LabelCopiedFrom: a.source.Namespace, csvinfo.LabelManaged: "true",
		}),
		OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(owner)},
	}
}

// copyRole creates or updates the copy of a Role. upToDate is true when the copy has the right rules. Otherwise the
// next watch event triggers a reconcile.
func (a *copyRun) copyRole(ctx context.Context, role *rbacv1.Role, namespace string, uid types.UID) (upToDate bool, err error) {
	wanted := &rbacv1.Role{ObjectMeta: a.newObjectMeta(role, namespace, uid), Rules: role.Rules}
	found := &rbacv1.Role{}
	switch err := a.marked.Get(ctx, client.ObjectKeyFromObject(wanted), found); {
	case apierrors.IsNotFound(err):
		err = a.client.Create(ctx, wanted)
		return err == nil, reconcile.IgnoreStale(err)
	case err != nil:
		return false, err
	case !isCopyOf(found, a.source):
		return false, nil
	case equality.Semantic.DeepEqual(found.Rules, wanted.Rules):
		return true, nil
	}

	found.Rules = wanted.Rules
	err = a.client.Update(ctx, found)
	return err == nil, reconcile.IgnoreStale(err)
}

// copyBinding creates the copy of a RoleBinding unless it exists.
func (a *copyRun) copyBinding(ctx context.Context, binding *rbacv1.RoleBinding, namespace string, uid types.UID) error {
	wanted := &rbacv1.RoleBinding{ObjectMeta: a.newObjectMeta(binding, namespace, uid), Subjects: binding.Subjects, RoleRef: binding.RoleRef}
	err := a.marked.Get(ctx, client.ObjectKeyFromObject(wanted), &rbacv1.RoleBinding{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return reconcile.IgnoreStale(a.client.Create(ctx, wanted))
}

// isCopyOf reports whether the labels of a Role state that it was copied for a ClusterServiceVersion.
func isCopyOf(role *rbacv1.Role, source *v1alpha1.ClusterServiceVersion) bool {
	return role.Labels[csvinfo.LabelCopiedFrom] == source.Namespace && role.Labels[csvinfo.LabelOwner] == source.Name
}
