package subscription

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// isCatalogHealthy reports whether the status of a catalog says that it is served.
func isCatalogHealthy(catalog *v1alpha1.CatalogSource) bool {
	switch catalog.Status.Reason {
	case v1alpha1.CatalogSourceSpecInvalidError, v1alpha1.CatalogSourceConfigMapError, v1alpha1.CatalogSourceRegistryServerError:
		return false
	}
	return catalog.Address() != ""
}

// catalogHealth returns the health of catalogs, sorted by namespace and name. Unchanged entries keep their time.
func catalogHealth(catalogs []v1alpha1.CatalogSource, before []v1alpha1.SubscriptionCatalogHealth, now metav1.Time) []v1alpha1.SubscriptionCatalogHealth {
	var all []v1alpha1.SubscriptionCatalogHealth
	for i := range catalogs {
		c := &catalogs[i]
		h := v1alpha1.SubscriptionCatalogHealth{
			CatalogSourceRef: &corev1.ObjectReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Namespace: c.Namespace, Name: c.Name, UID: c.UID,
			},
			LastUpdated: &now, Healthy: isCatalogHealthy(c),
		}
		if at := slices.IndexFunc(before, func(b v1alpha1.SubscriptionCatalogHealth) bool { return isSameHealth(b, h) }); at >= 0 {
			h.LastUpdated = before[at].LastUpdated
		}
		all = append(all, h)
	}

	slices.SortFunc(all, func(a, b v1alpha1.SubscriptionCatalogHealth) int {
		x, y := a.CatalogSourceRef, b.CatalogSourceRef
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// isSameHealth reports whether two entries have the same health for the same catalog.
func isSameHealth(a, b v1alpha1.SubscriptionCatalogHealth) bool {
	x, y := a.CatalogSourceRef, b.CatalogSourceRef
	return a.Healthy == b.Healthy && x != nil && y != nil && x.Namespace == y.Namespace && x.Name == y.Name && x.UID == y.UID
}

// updateCatalogHealth sets the health of the catalogs in the status of a Subscription.
func updateCatalogHealth(sub *v1alpha1.Subscription, catalogs []v1alpha1.CatalogSource, now metav1.Time) {
	before := sub.Status.CatalogHealth
	after := catalogHealth(catalogs, before, now)
	sub.Status.CatalogHealth = after
	setCondition(&sub.Status, now, newHealthCondition(&sub.Spec, before, after))
}

// newHealthCondition returns the condition CatalogSourcesUnhealthy. Its reason is the change of the catalogs, if
// there is one. The first catalogs of a Subscription are no change: the next pass would only correct the reason.
func newHealthCondition(spec *v1alpha1.SubscriptionSpec, before, after []v1alpha1.SubscriptionCatalogHealth) v1alpha1.SubscriptionCondition {
	c := v1alpha1.SubscriptionCondition{
		Type: v1alpha1.SubscriptionCatalogSourcesUnhealthy, Status: corev1.ConditionFalse,
		Reason: v1alpha1.AllCatalogSourcesHealthy, Message: "all available catalogsources are healthy",
	}
	isTarget := func(h v1alpha1.SubscriptionCatalogHealth) bool {
		return h.CatalogSourceRef.Name == spec.CatalogSource && h.CatalogSourceRef.Namespace == spec.CatalogSourceNamespace
	}
	name := spec.CatalogSourceNamespace + "/" + spec.CatalogSource
	target := slices.IndexFunc(after, isTarget)
	unhealthy := slices.IndexFunc(after, func(h v1alpha1.SubscriptionCatalogHealth) bool { return !h.Healthy })
	if target < 0 || unhealthy >= 0 {
		c.Status, c.Reason = corev1.ConditionTrue, v1alpha1.UnhealthyCatalogSourceFound
	}

	switch {
	case target < 0:
		c.Message = fmt.Sprintf("targeted catalogsource %s missing", name)
	case !after[target].Healthy:
		c.Message = fmt.Sprintf("targeted catalogsource %s unhealthy", name)
	case unhealthy >= 0:
		ref := after[unhealthy].CatalogSourceRef
		c.Message = fmt.Sprintf("catalogsource %s/%s, which dependencies may come from, is unhealthy: see its status", ref.Namespace, ref.Name)
	}

	switch {
	case len(after) == 0 && len(before) == 0:
		c.Reason, c.Message = v1alpha1.NoCatalogSourcesFound, "dependency resolution requires at least one catalogsource"
	case len(before) == 0:
	case len(after) > len(before):
		c.Reason = v1alpha1.CatalogSourcesAdded
	case len(after) < len(before):
		c.Reason = v1alpha1.CatalogSourcesDeleted
	case !slices.EqualFunc(before, after, isSameHealth):
		c.Reason = v1alpha1.CatalogSourcesUpdated
	}

	return c
}
