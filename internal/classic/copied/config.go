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

// conditions are those of an OLMConfig, in their order.
var conditions = reconcile.Conditions{operatorsv1.DisabledCopiedCSVsCondition}

// configs reports in the OLMConfig whether the copies are as it asks for. All that it reads is in
// caches.
type configs struct {
	*copier
}

// Reconcile writes the condition of the OLMConfig if it changed.
func (r *configs) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &operatorsv1.OLMConfig{}
	if err := r.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	asExpected, err := r.areAsExpected(ctx, config.CopiesDisabled())
	if err != nil {
		return ctrl.Result{}, err
	}

	before := config.DeepCopy()
	conditions.Set(&config.Status.Conditions, config.Generation, conditionOf(config.CopiesDisabled(), asExpected))
	if equality.Semantic.DeepEqual(before.Status, config.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.client.Status().Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of OLMConfig %s: %w", config.Name, err)
	}

	return ctrl.Result{}, nil
}

// conditionOf says what has come of the configuration.
func conditionOf(disabled, asExpected bool) metav1.Condition {
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

// areAsExpected reports whether each operator that watches all namespaces has all the copies that it
// should have or, where copies are disabled, none in namespaces that are not protected.
func (r *configs) areAsExpected(ctx context.Context, disabled bool) (bool, error) {
	namespaces, err := activeNamespaces(ctx, r.client)
	if err != nil {
		return false, err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &csvs, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}

	for i := range csvs.Items {
		csv := &csvs.Items[i]
		if csvinfo.IsCopied(csv) || csvinfo.IsUncopiable(csv) || !isGlobal(csv) {
			continue
		}

		list := metadataList()
		key := client.ObjectKeyFromObject(csv)
		if err := r.copies.List(ctx, list, client.MatchingFields{sourceIndex: key.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing the copies of ClusterServiceVersion %s: %w", key, err)
		}

		there := sets.Set[string]{}
		for j := range list.Items {
			there.Insert(list.Items[j].Namespace)
		}

		if disabled && there.Difference(r.protected).Len() > 0 {
			return false, nil
		}
		if !disabled && namespaces.Difference(there).Difference(homes(csvs.Items, csv.Name)).Len() > 0 {
			return false, nil
		}
	}

	return true, nil
}

// homes are the namespaces that have a ClusterServiceVersion of a name that is no copy.
func homes(csvs []v1alpha1.ClusterServiceVersion, name string) sets.Set[string] {
	namespaces := sets.Set[string]{}
	for i := range csvs {
		if csvs[i].Name == name && !csvinfo.HasCopyMarks(&csvs[i]) {
			namespaces.Insert(csvs[i].Namespace)
		}
	}
	return namespaces
}
