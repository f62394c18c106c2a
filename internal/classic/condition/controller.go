package condition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// FieldManager is the field manager for server-side apply.
const FieldManager = "mainstay"

// Each operator gets a Role for its own OperatorCondition in its namespace, which may be any.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions/status,verbs=patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=escalate;bind

// conditionReconciler ensures an OperatorCondition for each ClusterServiceVersion.
type conditionReconciler struct {
	client client.Client
}

// Reconcile applies the OperatorCondition of one ClusterServiceVersion. It does not change the conditions and
// overrides that operators and administrators set.
func (r *conditionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, csv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if csvinfo.IsCopied(csv) || !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	found := &operatorsv2.OperatorCondition{}
	err := r.client.Get(ctx, req.NamespacedName, found)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, err
	case err == nil:
		owner := metav1.GetControllerOf(found)
		if owner != nil && owner.UID != csv.UID {
			// It belongs to a deleted ClusterServiceVersion. Its deletion triggers a reconcile.
			return ctrl.Result{}, nil
		}
		if owner != nil && slices.Equal(found.Spec.ServiceAccounts, serviceAccountNames(csv)) && slices.Equal(found.Spec.Deployments, deploymentNames(csv)) {
			return ctrl.Result{}, nil
		}
	}

	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(newApplyConfiguration(csv)), client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing OperatorCondition %s: %w", req, err)
	}

	return ctrl.Result{}, nil
}

// newApplyConfiguration returns the fields of an OperatorCondition that come from its ClusterServiceVersion.
func newApplyConfiguration(csv *v1alpha1.ClusterServiceVersion) *unstructured.Unstructured {
	toAnySlice := func(names []string) []any {
		list := make([]any, 0, len(names))
		for _, name := range names {
			list = append(list, name)
		}
		return list
	}

	spec := map[string]any{"serviceAccounts": toAnySlice(serviceAccountNames(csv))}
	if names := deploymentNames(csv); len(names) > 0 {
		spec["deployments"] = toAnySlice(names)
	}

	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind))
	object.SetNamespace(csv.Namespace)
	object.SetName(csv.Name)
	owner := csvinfo.OwnerReference(csv)
	isController := true
	owner.Controller = &isController
	object.SetOwnerReferences([]metav1.OwnerReference{owner})

	return object
}

// accessReconciler grants operators access to their OperatorConditions, and copies the conditions of the spec to the
// status.
type accessReconciler struct {
	client client.Client
	// marked reads the labelled Roles and RoleBindings from the cache.
	marked client.Reader
}

// Reconcile updates the status of one OperatorCondition, and ensures its Role and RoleBinding.
func (r *accessReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	condition := &operatorsv2.OperatorCondition{}
	if err := r.client.Get(ctx, req.NamespacedName, condition); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !condition.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, errors.Join(r.patchStatus(ctx, condition), r.ensureRole(ctx, condition), r.ensureRoleBinding(ctx, condition))
}

// patchStatus copies the conditions of the spec to the status if they changed.
func (r *accessReconciler) patchStatus(ctx context.Context, condition *operatorsv2.OperatorCondition) error {
	conditions, changed := mergeSpecConditions(condition)
	if !changed {
		return nil
	}

	after := condition.DeepCopy()
	after.Status.Conditions = conditions
	patch := client.MergeFromWithOptions(condition, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the status of OperatorCondition %s/%s: %w", condition.Namespace, condition.Name, err)
	}

	return nil
}

// ensureRole applies the Role that allows an operator to read and write only its own OperatorCondition.
func (r *accessReconciler) ensureRole(ctx context.Context, condition *operatorsv2.OperatorCondition) error {
	verbs, groups := []string{"get", "update", "patch"}, []string{operatorsv2.GroupVersion.Group}
	resources, names := []string{"operatorconditions"}, []string{condition.Name}
	found := &rbacv1.Role{}
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(condition), found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}

	wanted := []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}}
	if err == nil && metav1.IsControlledBy(found, condition) && equality.Semantic.DeepEqual(found.Rules, wanted) {
		return nil
	}

	role := rbacv1ac.Role(condition.Name, condition.Namespace).
		WithLabels(map[string]string{csvinfo.LabelManaged: "true"}).
		WithOwnerReferences(newOwnerReference(condition)).
		WithRules(rbacv1ac.PolicyRule().WithVerbs(verbs...).WithAPIGroups(groups...).WithResources(resources...).WithResourceNames(names...))
	if err := r.client.Apply(ctx, role, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing the Role of OperatorCondition %s/%s: %w", condition.Namespace, condition.Name, err)
	}

	return nil
}

// ensureRoleBinding binds the Role to the service accounts of the operator.
func (r *accessReconciler) ensureRoleBinding(ctx context.Context, condition *operatorsv2.OperatorCondition) error {
	found := &rbacv1.RoleBinding{}
	err := r.marked.Get(ctx, client.ObjectKeyFromObject(condition), found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}

	var wanted []rbacv1.Subject
	binding := rbacv1ac.RoleBinding(condition.Name, condition.Namespace).
		WithLabels(map[string]string{csvinfo.LabelManaged: "true"}).
		WithOwnerReferences(newOwnerReference(condition)).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(condition.Name))
	for _, name := range condition.Spec.ServiceAccounts {
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: condition.Namespace, Name: name}
		if slices.Contains(wanted, subject) {
			continue
		}
		wanted = append(wanted, subject)
		binding.WithSubjects(rbacv1ac.Subject().WithKind(subject.Kind).WithNamespace(subject.Namespace).WithName(subject.Name))
	}

	if err == nil && metav1.IsControlledBy(found, condition) && equality.Semantic.DeepEqual(found.Subjects, wanted) {
		return nil
	}
	if err := r.client.Apply(ctx, binding, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the RoleBinding of OperatorCondition %s/%s: %w", condition.Namespace, condition.Name, err)
	}

	return nil
}

func newOwnerReference(condition *operatorsv2.OperatorCondition) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(operatorsv2.GroupVersion.String()).WithKind(operatorsv2.OperatorConditionKind).
		WithName(condition.Name).WithUID(condition.UID).WithController(true)
}
