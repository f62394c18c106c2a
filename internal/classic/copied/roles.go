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
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// copyRoles returns an operator, in the namespaces that have a copy of its ClusterServiceVersion, the
// rights that it has in its own, as far as group.RightsOf goes. They vanish with the copy.
func (a *attempt) copyRoles(ctx context.Context) error {
	of := []client.ListOption{
		client.InNamespace(a.source.Namespace), client.MatchingLabels(csvinfo.OwnerLabels(a.source.Namespace, a.source.Name)),
	}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(a.marked.List(ctx, &roles, of...), a.marked.List(ctx, &bindings, of...)); err != nil {
		return fmt.Errorf("listing the roles of ClusterServiceVersion %s/%s: %w", a.source.Namespace, a.source.Name, err)
	}

	// That an object refers to the ClusterServiceVersion is necessary, and proves nothing.
	roles.Items = slices.DeleteFunc(roles.Items, func(r rbacv1.Role) bool { return !csvinfo.IsOwner(r.OwnerReferences, a.source) })
	bindings.Items = slices.DeleteFunc(bindings.Items, func(b rbacv1.RoleBinding) bool { return !csvinfo.IsOwner(b.OwnerReferences, a.source) })
	rights := group.RightsOf(a.source, roles.Items, bindings.Items)
	rights.Log(ctrl.LoggerFrom(ctx))
	for namespace, uid := range a.uids {
		if err := a.copyRights(ctx, rights, namespace, uid); err != nil {
			return err
		}
	}

	return nil
}

// copyRights copies Roles to a namespace, and RoleBindings of those that are there as they should be: one
// that somebody else made there under the name of a Role is not bound.
func (a *attempt) copyRights(ctx context.Context, rights group.Rights, namespace string, uid types.UID) error {
	isThere := map[string]bool{}
	for _, role := range rights.Roles {
		copied, err := a.copyRole(ctx, role, namespace, uid)
		if err != nil {
			return fmt.Errorf("copying Role %s/%s to namespace %s: %w", role.Namespace, role.Name, namespace, err)
		}
		if !copied {
			ctrl.LoggerFrom(ctx).Info("Not binding a Role for an operator: it is no copy, or has just changed", "role", namespace+"/"+role.Name)
		}
		isThere[role.Name] = copied
	}

	for _, binding := range rights.Bindings {
		if !isThere[binding.RoleRef.Name] {
			continue
		}
		if err := a.copyBinding(ctx, binding, namespace, uid); err != nil {
			return fmt.Errorf("copying RoleBinding %s/%s to namespace %s: %w", binding.Namespace, binding.Name, namespace, err)
		}
	}

	return nil
}

// meta is the metadata of a copy of what belongs to an operator.
func (a *attempt) meta(object client.Object, namespace string, uid types.UID) metav1.ObjectMeta {
	owner := &v1alpha1.ClusterServiceVersion{}
	owner.Namespace, owner.Name, owner.UID = namespace, a.source.Name, uid
	return metav1.ObjectMeta{
		Namespace: namespace, Name: object.GetName(),
		Labels: csvinfo.With(object.GetLabels(), csvinfo.OwnerLabels(namespace, a.source.Name), map[string]string{
			csvinfo.LabelCopiedFrom: a.source.Namespace, csvinfo.LabelManaged: "true",
		}),
		OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(owner)},
	}
}

// copyRole makes a Role, or gives one that is there the rules that it should have. isThere tells whether it
// is there with these; if not, what the watch shows next wakes the controller.
func (a *attempt) copyRole(ctx context.Context, role *rbacv1.Role, namespace string, uid types.UID) (isThere bool, err error) {
	wanted := &rbacv1.Role{ObjectMeta: a.meta(role, namespace, uid), Rules: role.Rules}
	found := &rbacv1.Role{}
	switch err := a.marked.Get(ctx, client.ObjectKeyFromObject(wanted), found); {
	case apierrors.IsNotFound(err):
		err = a.client.Create(ctx, wanted)
		return err == nil, settled(err)
	case err != nil:
		return false, err
	case !isCopyOf(found, a.source):
		return false, nil
	case equality.Semantic.DeepEqual(found.Rules, wanted.Rules):
		return true, nil
	}

	found.Rules = wanted.Rules
	err = a.client.Update(ctx, found)
	return err == nil, settled(err)
}

// copyBinding makes a RoleBinding unless one is there.
func (a *attempt) copyBinding(ctx context.Context, binding *rbacv1.RoleBinding, namespace string, uid types.UID) error {
	wanted := &rbacv1.RoleBinding{ObjectMeta: a.meta(binding, namespace, uid), Subjects: binding.Subjects, RoleRef: binding.RoleRef}
	err := a.marked.Get(ctx, client.ObjectKeyFromObject(wanted), &rbacv1.RoleBinding{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return settled(a.client.Create(ctx, wanted))
}

// isCopyOf reports whether a Role was copied for a ClusterServiceVersion, and is nobody else's.
func isCopyOf(role *rbacv1.Role, source *v1alpha1.ClusterServiceVersion) bool {
	return role.Labels[csvinfo.LabelCopiedFrom] == source.Namespace && role.Labels[csvinfo.LabelOwner] == source.Name
}

// settled takes it for no error that somebody else was faster, or the namespace gone: what the watch
// shows next wakes the controller.
func settled(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
