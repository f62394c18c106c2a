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
)

// grants returns operators that watch all namespaces, in all of them, the rights that they have in their
// own, as far as RightsOf goes. Those that watch some get them with their copies there.
type grants struct {
	client client.Client
	// live reads from the API server.
	live client.Reader
	// marked has the roles and bindings of operators.
	marked client.Reader
}

// Reconcile returns one operator its rights. What is there is left as it is.
func (r *grants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, csv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if csvinfo.IsCopied(csv) || !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	group, err := Of(ctx, r.client, csv.Namespace)
	switch {
	case errors.Is(err, ErrNone), errors.Is(err, ErrSeveral):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}

	if _, changed := Annotated(csv, group); changed || !group.IsGlobal() {
		return ctrl.Result{}, nil
	}

	of := []client.ListOption{client.InNamespace(csv.Namespace), client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(r.marked.List(ctx, &roles, of...), r.marked.List(ctx, &bindings, of...)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the roles of ClusterServiceVersion %s: %w", req, err)
	}

	rights := RightsOf(csv, roles.Items, bindings.Items)
	rights.Log(ctrl.LoggerFrom(ctx))
	return ctrl.Result{}, r.grant(ctx, csv, rights)
}

// grant makes the ClusterRoles and ClusterRoleBindings of an operator. A name alone is no proof: a
// ClusterRole that is there and grants more than the Role of its name is not bound, be it cluster-admin or
// what was once made of a Role that is not covered any more.
func (r *grants) grant(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, rights Rights) error {
	bound := map[string]bool{}
	for _, role := range rights.Roles {
		wanted := clusterWide(role)
		there, err := r.ensureRole(ctx, wanted)
		if err != nil {
			return err
		}
		if err := unusable(csv, wanted, there); err != nil {
			ctrl.LoggerFrom(ctx).Info("Not binding a ClusterRole for an operator", "name", wanted.Name, "reason", err.Error())
			continue
		}

		bound[role.Name] = true
	}

	for _, binding := range rights.Bindings {
		if !bound[binding.RoleRef.Name] {
			continue
		}
		if err := r.createBinding(ctx, clusterWideBinding(binding)); err != nil {
			return err
		}
	}

	return nil
}

// ensureRole makes a ClusterRole unless one is there, and gives the one that is.
func (r *grants) ensureRole(ctx context.Context, wanted *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
	there := &rbacv1.ClusterRole{}
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(wanted), there)
	if apierrors.IsNotFound(err) {
		made := wanted.DeepCopy()
		if err = r.client.Create(ctx, made, client.FieldOwner(FieldManager)); err == nil {
			return made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("making ClusterRole %s: %w", wanted.Name, err)
		}
		// It is not marked as made by OLM, or the cache has not seen it yet.
		err = r.live.Get(ctx, client.ObjectKeyFromObject(wanted), there)
	}

	if err != nil {
		return nil, fmt.Errorf("reading ClusterRole %s: %w", wanted.Name, err)
	}

	return there, nil
}

// unusable says why a ClusterRole that is there cannot stand for the one that is wanted for an operator;
// nil when it can: it is the operator's, and grants no more.
func unusable(csv *v1alpha1.ClusterServiceVersion, wanted, there *rbacv1.ClusterRole) error {
	switch {
	case !csvinfo.Matches(there.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name)):
		return errors.New("it is there already, and not marked as belonging to the ClusterServiceVersion")
	case there.AggregationRule != nil:
		return errors.New("it gathers rules of other ClusterRoles")
	}

	if err := uncovered(wanted.Rules, there.Rules); err != nil {
		return fmt.Errorf("it grants more than its Role: %w", err)
	}
	return nil
}

// createBinding makes a ClusterRoleBinding unless it is there.
func (r *grants) createBinding(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(binding), &rbacv1.ClusterRoleBinding{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := r.client.Create(ctx, binding, client.FieldOwner(FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making ClusterRoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// clusterWide is a Role that holds in all namespaces, which it may also list.
func clusterWide(role *rbacv1.Role) *rbacv1.ClusterRole {
	namespaces := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}
	return &rbacv1.ClusterRole{ObjectMeta: clusterWideMeta(role), Rules: slices.Concat(role.DeepCopy().Rules, []rbacv1.PolicyRule{namespaces})}
}

// clusterWideBinding binds what clusterWide makes of the Role that a binding binds.
func clusterWideBinding(binding *rbacv1.RoleBinding) *rbacv1.ClusterRoleBinding {
	ref := binding.RoleRef
	ref.Kind = kindClusterRole
	return &rbacv1.ClusterRoleBinding{ObjectMeta: clusterWideMeta(binding), Subjects: binding.DeepCopy().Subjects, RoleRef: ref}
}

// clusterWideMeta has the labels that OLM itself puts on roles and bindings. Others are not taken over: by
// labels, ClusterRoles such as admin and view gather the rules of others.
func clusterWideMeta(object client.Object) metav1.ObjectMeta {
	labels := map[string]string{csvinfo.LabelManaged: "true"}
	for _, key := range []string{csvinfo.LabelOwner, csvinfo.LabelOwnerNamespace, csvinfo.LabelOwnerKind, csvinfo.LabelPermissionsHash} {
		if value, ok := object.GetLabels()[key]; ok {
			labels[key] = value
		}
	}
	return metav1.ObjectMeta{Name: object.GetName(), Labels: labels}
}

// members wakes the ClusterServiceVersions of the namespace of a group.
func (r *grants) members(ctx context.Context, group client.Object) []ctrl.Request {
	if g, ok := group.(*operatorsv1.OperatorGroup); ok && !g.IsGlobal() {
		return nil
	}

	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, client.InNamespace(group.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to be woken")
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
