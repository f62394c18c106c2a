package copied

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// olmConfigConditions are the condition types of an OLMConfig, in order.
var olmConfigConditions = reconcile.Conditions{operatorsv1.DisabledCopiedCSVsCondition}

// olmConfigReconciler reports in the OLMConfig whether the copied CSVs match its spec. It reads only from caches.
type olmConfigReconciler struct {
	*copier
}

// Reconcile patches the condition of the OLMConfig if it changed.
func (r *olmConfigReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &operatorsv1.OLMConfig{}
	if err := r.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	asExpected, err := r.copiesMatchConfig(ctx, config.CopiesDisabled())
	if err != nil {
		return ctrl.Result{}, err
	}

	before := config.DeepCopy()
	olmConfigConditions.Set(&config.Status.Conditions, config.Generation, newCopiedCSVsCondition(config.CopiesDisabled(), asExpected))
	if equality.Semantic.DeepEqual(before.Status, config.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.client.Status().Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of OLMConfig %s: %w", config.Name, err)
	}

	return ctrl.Result{}, nil
}

// newCopiedCSVsCondition returns the condition DisabledCopiedCSVs.
func newCopiedCSVsCondition(disabled, asExpected bool) metav1.Condition {
	c := metav1.Condition{
		Type: operatorsv1.DisabledCopiedCSVsCondition, Status: metav1.ConditionFalse, Reason: operatorsv1.CopiedCSVsEnabledReason,
	}
	switch {
	case !disabled && asExpected:
		c.Message = "Copied CSVs are enabled and present across the cluster"
	case !disabled:
		c.Message = "Copied CSVs are enabled and at least one copied CSVs is missing"
	case !asExpected:
		c.Reason = operatorsv1.CopiedCSVsDisabledReason
		c.Message = "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, operatorsv1.CopiedCSVsDisabledReason
		c.Message = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode"
	}

	return c
}

// copiesMatchConfig reports whether each operator that watches all namespaces has all its copied CSVs. If they are
// disabled, it reports whether there are none outside of protected namespaces.
func (r *olmConfigReconciler) copiesMatchConfig(ctx context.Context, disabled bool) (bool, error) {
	namespaces, err := listActiveNamespaces(ctx, r.client)
	if err != nil {
		return false, err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &csvs, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}

	for i := range csvs.Items {
		csv := &csvs.Items[i]
		if csvinfo.IsCopied(csv) || csvinfo.IsUncopiable(csv) || !watchesAllNamespaces(csv) {
			continue
		}

		list := newCSVMetadataList()
		key := client.ObjectKeyFromObject(csv)
		if err := r.copies.List(ctx, list, client.MatchingFields{sourceIndex: key.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing the copies of ClusterServiceVersion %s: %w", key, err)
		}

		existing := sets.Set[string]{}
		for j := range list.Items {
			existing.Insert(list.Items[j].Namespace)
		}

		if disabled && existing.Difference(r.protected).Len() > 0 {
			return false, nil
		}
		if !disabled && namespaces.Difference(existing).Difference(namespacesWithOriginal(csvs.Items, csv.Name)).Len() > 0 {
			return false, nil
		}
	}

	return true, nil
}

// namespacesWithOriginal returns the namespaces that have an original ClusterServiceVersion of a name.
func namespacesWithOriginal(csvs []v1alpha1.ClusterServiceVersion, name string) sets.Set[string] {
	namespaces := sets.Set[string]{}
	for i := range csvs {
		if csvs[i].Name == name && !csvinfo.HasCopiedMetadata(&csvs[i]) {
			namespaces.Insert(csvs[i].Namespace)
		}
	}
	return namespaces
}
