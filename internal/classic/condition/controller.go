package condition

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// FieldManager is the field manager for server-side apply.
const FieldManager = "mainstay"

// Each operator gets a Role for its own OperatorCondition in its namespace, which may be any.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions/status,verbs=patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=escalate;bind

// creator ensures an OperatorCondition for each ClusterServiceVersion.
type creator struct {
	client client.Client
}

func (r *creator) newReconciler() *reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *operatorsv2.OperatorCondition, bool] {
	return &reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *operatorsv2.OperatorCondition, bool]{
		Client: r.client, New: func() *v1alpha1.ClusterServiceVersion { return &v1alpha1.ClusterServiceVersion{} },
		Gather: r.readCondition, Decide: needsCondition, Execute: r.applyCondition,
	}
}

// readCondition returns the OperatorCondition of a ClusterServiceVersion; nil when it does not exist.
func (r *creator) readCondition(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*operatorsv2.OperatorCondition, error) {
	if csvinfo.IsCopied(csv) {
		return nil, nil
	}

	found := &operatorsv2.OperatorCondition{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(csv), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading OperatorCondition %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	return found, nil
}

// applyCondition applies the OperatorCondition of a ClusterServiceVersion. It does not change the conditions and
// overrides that operators and administrators set.
func (r *creator) applyCondition(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, _ *operatorsv2.OperatorCondition, needed bool) error {
	if !needed {
		return nil
	}
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(newApplyConfiguration(csv)), client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing OperatorCondition %s: %w", client.ObjectKeyFromObject(csv), err)
	}
	return nil
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
	if components := csvinfo.ComponentLabels(csv.Labels); len(components) > 0 {
		object.SetLabels(components)
	}
	owner := csvinfo.OwnerReference(csv)
	isController := true
	owner.Controller = &isController
	object.SetOwnerReferences([]metav1.OwnerReference{owner})

	return object
}

// accessGranter grants operators access to their OperatorConditions, and copies the conditions of the spec to the
// status.
type accessGranter struct {
	client client.Client
	// marked reads the labelled Roles and RoleBindings from the cache.
	marked client.Reader
}

func (r *accessGranter) newReconciler() *reconcile.ObjectReconciler[*operatorsv2.OperatorCondition, accessFacts, access] {
	return &reconcile.ObjectReconciler[*operatorsv2.OperatorCondition, accessFacts, access]{
		Client: r.client, New: func() *operatorsv2.OperatorCondition { return &operatorsv2.OperatorCondition{} },
		Gather: r.gatherFacts, Decide: decideAccess, Execute: r.applyAccess,
		Report: func(condition *operatorsv2.OperatorCondition, _ accessFacts, _ access, _ error) []reconcile.Event {
			condition.Status.Conditions, _ = mergeSpecConditions(condition)
			return nil
		},
	}
}

// gatherFacts reads the Role and the RoleBinding of an OperatorCondition.
func (r *accessGranter) gatherFacts(ctx context.Context, condition *operatorsv2.OperatorCondition) (accessFacts, error) {
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	key := client.ObjectKeyFromObject(condition)
	var f accessFacts
	switch err := r.marked.Get(ctx, key, role); {
	case err == nil:
		f.role = role
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("reading the Role of OperatorCondition %s: %w", key, err)
	}

	switch err := r.marked.Get(ctx, key, binding); {
	case err == nil:
		f.binding = binding
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("reading the RoleBinding of OperatorCondition %s: %w", key, err)
	}

	return f, nil
}

// applyAccess applies the Role and the RoleBinding that differ.
func (r *accessGranter) applyAccess(ctx context.Context, condition *operatorsv2.OperatorCondition, _ accessFacts, a access) error {
	var errs []error
	if a.role != nil {
		if err := r.client.Apply(ctx, a.role, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
			errs = append(errs, fmt.Errorf("writing the Role of OperatorCondition %s/%s: %w", condition.Namespace, condition.Name, err))
		}
	}
	if a.binding != nil {
		if err := r.client.Apply(ctx, a.binding, client.FieldOwner(FieldManager), client.ForceOwnership); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("writing the RoleBinding of OperatorCondition %s/%s: %w", condition.Namespace, condition.Name, err))
		}
	}
	return errors.Join(errs...)
}
