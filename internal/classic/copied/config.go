package copied

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// olmConfigConditions are the condition types of an OLMConfig, in order.
var olmConfigConditions = reconcile.Conditions{operatorsv1.DisabledCopiedCSVsCondition}

// configReporter reports in the OLMConfig whether the copied CSVs match its spec. It reads only from caches.
type configReporter struct {
	client client.Client
	// copies reads the metadata of copies from the cache.
	copies client.Reader
	// protected are the namespaces that have copies even if they are disabled.
	protected sets.Set[string]
}

func (r *configReporter) newReconciler() *reconcile.ObjectReconciler[*operatorsv1.OLMConfig, bool, metav1.Condition] {
	return &reconcile.ObjectReconciler[*operatorsv1.OLMConfig, bool, metav1.Condition]{
		Client: r.client, New: func() *operatorsv1.OLMConfig { return &operatorsv1.OLMConfig{} },
		Gather: func(ctx context.Context, config *operatorsv1.OLMConfig) (bool, error) {
			return r.copiesMatchConfig(ctx, config.CopiesDisabled())
		},
		Decide: func(config *operatorsv1.OLMConfig, asExpected bool) metav1.Condition {
			return newCopiedCSVsCondition(config.CopiesDisabled(), asExpected)
		},
		Report: reportConfig,
	}
}

func reportConfig(config *operatorsv1.OLMConfig, _ bool, condition metav1.Condition, err error) []reconcile.Event {
	if err == nil {
		olmConfigConditions.Set(&config.Status.Conditions, config.Generation, condition)
	}
	return nil
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
func (r *configReporter) copiesMatchConfig(ctx context.Context, disabled bool) (bool, error) {
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
