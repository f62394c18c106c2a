package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// grants grants operators that watch all namespaces cluster-wide rights: those of their roles that membership.RightsOf
// accepts. Operators that watch some namespaces get their rights there from package copied.
type grants struct {
	client client.Client
	// live reads from the API server without the cache.
	live client.Reader
	// marked reads the labelled roles and bindings of operators from the cache.
	marked client.Reader
}

func (r *grants) newReconciler() *reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *grantFacts, membership.Rights] {
	return &reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *grantFacts, membership.Rights]{
		Client: r.client, New: newCSV, Gather: r.gatherFacts, Decide: decideGrants, Execute: r.createGrants,
	}
}

// grantFacts determine the cluster-wide rights of an operator.
type grantFacts struct {
	// group is the OperatorGroup of the namespace; nil when there is not exactly one.
	group    *operatorsv1.OperatorGroup
	roles    []rbacv1.Role
	bindings []rbacv1.RoleBinding
}

// gatherFacts reads the group of an operator and, if the operator watches all namespaces, its roles.
func (r *grants) gatherFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*grantFacts, error) {
	f := &grantFacts{}
	group, err := membership.OnlyGroupOf(ctx, r.client, csv.Namespace)
	switch {
	case errors.Is(err, membership.ErrNone), errors.Is(err, membership.ErrSeveral):
		return f, nil
	case err != nil:
		return f, err
	}

	f.group = group
	if !mayHaveGrants(csv, f.group) {
		return f, nil
	}

	ownedByCSV := []client.ListOption{client.InNamespace(csv.Namespace), client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(r.marked.List(ctx, &roles, ownedByCSV...), r.marked.List(ctx, &bindings, ownedByCSV...)); err != nil {
		return f, fmt.Errorf("listing the roles of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	f.roles, f.bindings = roles.Items, bindings.Items
	return f, nil
}

// mayHaveGrants reports whether an operator may have cluster-wide rights: it is a member of a global group, and has the
// finalizer that deletes them. Adding the finalizer triggers a reconcile.
func mayHaveGrants(csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) bool {
	if csvinfo.IsCopied(csv) || !csvinfo.HasCleanup(csv) || group == nil || !group.IsGlobal() {
		return false
	}
	_, changed := membership.WithGroupAnnotations(csv, group)
	return !changed
}

// decideGrants returns the rights that an operator must have in the whole cluster.
func decideGrants(csv *v1alpha1.ClusterServiceVersion, f *grantFacts) membership.Rights {
	if !mayHaveGrants(csv, f.group) {
		return membership.Rights{}
	}
	return membership.RightsOf(csv, f.roles, f.bindings)
}

// createGrants creates the missing ClusterRoles and ClusterRoleBindings of an operator. It changes no existing ones, and
// does not bind an existing
// ClusterRole that grants more than the Role of the same name. Such a ClusterRole may be cluster-admin, or the copy of
// an earlier Role that the operator's permissions no longer cover.
func (r *grants) createGrants(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, _ *grantFacts, rights membership.Rights) error {
	rights.Log(ctrl.LoggerFrom(ctx))
	bound := map[string]bool{}
	for _, role := range rights.Roles {
		wanted := newClusterRole(role)
		existing, err := r.getOrCreateRole(ctx, wanted)
		if err != nil {
			return err
		}
		if err := checkExistingRole(csv, wanted, existing); err != nil {
			ctrl.LoggerFrom(ctx).Info("Not binding a ClusterRole for an operator", "name", wanted.Name, "reason", err.Error())
			continue
		}

		bound[role.Name] = true
	}

	for _, binding := range rights.Bindings {
		if !bound[binding.RoleRef.Name] {
			continue
		}
		if err := r.createBinding(ctx, newClusterRoleBinding(binding)); err != nil {
			return err
		}
	}

	return nil
}

// getOrCreateRole returns the existing ClusterRole of the name, or creates the wanted one.
func (r *grants) getOrCreateRole(ctx context.Context, wanted *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
	existing := &rbacv1.ClusterRole{}
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	if apierrors.IsNotFound(err) {
		created := wanted.DeepCopy()
		if err = r.client.Create(ctx, created, client.FieldOwner(FieldManager)); err == nil {
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating ClusterRole %s: %w", wanted.Name, err)
		}
		// It does not have the label of OLM, or is not in the cache yet.
		err = r.live.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	}

	if err != nil {
		return nil, fmt.Errorf("reading ClusterRole %s: %w", wanted.Name, err)
	}

	return existing, nil
}

// checkExistingRole returns why an existing ClusterRole must not be bound instead of the wanted one. It returns nil if
// the ClusterRole belongs to the operator and grants no more than the wanted one.
func checkExistingRole(csv *v1alpha1.ClusterServiceVersion, wanted, existing *rbacv1.ClusterRole) error {
	switch {
	case !csvinfo.HasLabels(existing.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name)):
		return errors.New("it exists already and does not belong to the ClusterServiceVersion")
	case existing.AggregationRule != nil:
		return errors.New("it aggregates the rules of other ClusterRoles")
	}

	if err := membership.CheckCovered(wanted.Rules, existing.Rules); err != nil {
		return fmt.Errorf("it grants more than its Role: %w", err)
	}
	return nil
}

// createBinding creates a ClusterRoleBinding unless it exists.
func (r *grants) createBinding(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(binding), &rbacv1.ClusterRoleBinding{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := r.client.Create(ctx, binding, client.FieldOwner(FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating ClusterRoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// newClusterRole returns a ClusterRole with the rules of a Role and the right to read namespaces.
func newClusterRole(role *rbacv1.Role) *rbacv1.ClusterRole {
	namespaces := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}
	return &rbacv1.ClusterRole{ObjectMeta: newClusterObjectMeta(role), Rules: slices.Concat(role.DeepCopy().Rules, []rbacv1.PolicyRule{namespaces})}
}

// newClusterRoleBinding returns a ClusterRoleBinding for a RoleBinding, which binds the ClusterRole for its Role.
func newClusterRoleBinding(binding *rbacv1.RoleBinding) *rbacv1.ClusterRoleBinding {
	ref := binding.RoleRef
	ref.Kind = "ClusterRole"
	return &rbacv1.ClusterRoleBinding{ObjectMeta: newClusterObjectMeta(binding), Subjects: binding.DeepCopy().Subjects, RoleRef: ref}
}

// newClusterObjectMeta copies only the labels that OLM itself sets on roles and bindings. Other labels may aggregate
// the rules to ClusterRoles such as admin and view.
func newClusterObjectMeta(object client.Object) metav1.ObjectMeta {
	labels := map[string]string{csvinfo.LabelManaged: "true"}
	for _, key := range []string{csvinfo.LabelOwner, csvinfo.LabelOwnerNamespace, csvinfo.LabelOwnerKind, csvinfo.LabelPermissionsHash} {
		if value, ok := object.GetLabels()[key]; ok {
			labels[key] = value
		}
	}
	return metav1.ObjectMeta{Name: object.GetName(), Labels: labels}
}

// enqueueMembers is a map function that returns the ClusterServiceVersions in the namespace of a global group.
func (r *grants) enqueueMembers(ctx context.Context, group client.Object) []ctrl.Request {
	if g, ok := group.(*operatorsv1.OperatorGroup); ok && !g.IsGlobal() {
		return nil
	}

	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, client.InNamespace(group.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if csv := &list.Items[i]; !csvinfo.IsCopied(csv) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}

	return requests
}
