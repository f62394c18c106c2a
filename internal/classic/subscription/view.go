package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// view is the state of a namespace and of the catalogs that it may use.
type view struct {
	namespace string
	// subs are sorted by name and changed during the reconcile; before are their original copies.
	subs, before []*v1alpha1.Subscription
	plans        []v1alpha1.InstallPlan
	csvs         []v1alpha1.ClusterServiceVersion
	groups       []operatorsv1.OperatorGroup
	// catalogs are those of the namespace and the global ones.
	catalogs []v1alpha1.CatalogSource
}

// readView reads the state of a namespace. It reads nothing else if the namespace has no Subscriptions.
func (r *reconciler) readView(ctx context.Context, reader client.Reader, namespace string) (*view, error) {
	v := &view{namespace: namespace}
	var subs v1alpha1.SubscriptionList
	var plans v1alpha1.InstallPlanList
	var csvs v1alpha1.ClusterServiceVersionList
	var groups operatorsv1.OperatorGroupList
	in := client.InNamespace(namespace)
	if err := reader.List(ctx, &subs, in); err != nil || len(subs.Items) == 0 {
		return v, wrapListError("Subscriptions", namespace, err)
	}

	err := errors.Join(
		wrapListError("InstallPlans", namespace, reader.List(ctx, &plans, in)),
		wrapListError("ClusterServiceVersions", namespace, reader.List(ctx, &csvs, in)),
		wrapListError("OperatorGroups", namespace, reader.List(ctx, &groups, in)),
	)
	if err != nil {
		return nil, err
	}

	for _, ns := range slices.Compact([]string{namespace, r.GlobalNamespace}) {
		if ns == "" {
			continue
		}
		var catalogs v1alpha1.CatalogSourceList
		if err := r.client.List(ctx, &catalogs, client.InNamespace(ns)); err != nil {
			return nil, wrapListError("CatalogSources", ns, err)
		}
		for i := range catalogs.Items {
			if catalogs.Items[i].DeletionTimestamp.IsZero() {
				v.catalogs = append(v.catalogs, catalogs.Items[i])
			}
		}
	}

	for i := range subs.Items {
		if sub := &subs.Items[i]; sub.DeletionTimestamp.IsZero() {
			v.subs, v.before = append(v.subs, sub), append(v.before, sub.DeepCopy())
		}
	}

	v.plans, v.groups = plans.Items, groups.Items
	v.csvs = slices.DeleteFunc(csvs.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csvinfo.IsCopied(&csv) })
	byName := func(a, b *v1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(v.subs, byName)
	slices.SortFunc(v.before, byName)

	return v, nil
}

func wrapListError(kinds, namespace string, err error) error {
	if err != nil {
		return fmt.Errorf("listing the %s of namespace %s: %w", kinds, namespace, err)
	}
	return nil
}

// hasCSV reports whether the namespace has a ClusterServiceVersion.
func (v *view) hasCSV(name string) bool {
	return slices.ContainsFunc(v.csvs, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.Name == name })
}

// allowsFailForward reports whether failed operators may be replaced.
func (v *view) allowsFailForward() bool {
	return len(v.groups) == 1 && v.groups[0].Spec.UpgradeStrategy == operatorsv1.UpgradeStrategyUnsafeFailForward
}

// allAwaitInstallPlans reports whether every Subscription waits for its InstallPlan.
func (v *view) allAwaitInstallPlans() bool {
	return !slices.ContainsFunc(v.subs, func(sub *v1alpha1.Subscription) bool {
		return sub.Status.InstallPlanRef == nil || sub.Status.State != v1alpha1.SubscriptionStateUpgradePending
	})
}

// hasInstallingPlan reports whether an InstallPlan is being executed.
func (v *view) hasInstallingPlan() bool {
	return slices.ContainsFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling })
}

// availableCatalogs returns the catalogs that operators of the namespace may be installed from.
func (v *view) availableCatalogs() []v1alpha1.CatalogSource {
	all := slices.Clone(v.catalogs)
	if len(v.groups) == 1 && v.groups[0].Annotations[operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation] == "true" {
		all = slices.DeleteFunc(all, func(c v1alpha1.CatalogSource) bool { return c.Namespace != v.namespace })
	}
	return all
}

// isUnchanged reports whether a later view has the same state, so that decisions are still valid.
func (v *view) isUnchanged(later *view) bool {
	return slices.EqualFunc(v.before, later.before, func(a, b *v1alpha1.Subscription) bool {
		return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
	}) && equalSets(v.plans, later.plans, func(p v1alpha1.InstallPlan) string {
		return fmt.Sprint(p.UID, p.Spec.Generation, isPlanUnfinished(&p))
	}) && equalSets(v.csvs, later.csvs, func(csv v1alpha1.ClusterServiceVersion) string {
		return fmt.Sprint(csv.UID, csv.Spec.Replaces, csv.Status.Phase == v1alpha1.CSVPhaseSucceeded)
	})
}

func equalSets[T any](a, b []T, key func(T) string) bool {
	keys := func(all []T) []string {
		var keys []string
		for i := range all {
			keys = append(keys, key(all[i]))
		}
		slices.Sort(keys)
		return keys
	}

	return slices.Equal(keys(a), keys(b))
}

// getOrDiscardPlan returns the InstallPlan of a name; nil when there is none. If a Subscription waits for the plan and
// the cache does not have it with steps, it reads the plan from the API server. It deletes a plan that has no steps,
// because no instance will add them.
func (r *reconciler) getOrDiscardPlan(ctx context.Context, v *view, name string, awaited bool) (*v1alpha1.InstallPlan, error) {
	at := slices.IndexFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Name == name })
	switch {
	case at >= 0 && !isPlanUnfinished(&v.plans[at]):
		return &v.plans[at], nil
	case !awaited:
		return nil, nil
	}

	plan := &v1alpha1.InstallPlan{}
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: v.namespace, Name: name}, plan)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading InstallPlan %s/%s: %w", v.namespace, name, err)
	case !plan.DeletionTimestamp.IsZero():
		return nil, nil
	case !isPlanUnfinished(plan):
		return plan, nil
	}

	return nil, r.deleteUnfinishedPlan(ctx, plan)
}

// deleteUnfinishedPlan deletes an InstallPlan that an earlier instance did not finish.
func (r *reconciler) deleteUnfinishedPlan(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	err := r.client.Delete(ctx, plan, client.Preconditions{UID: &plan.UID, ResourceVersion: &plan.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting InstallPlan %s/%s, which was not finished: %w", plan.Namespace, plan.Name, err)
	}
	return nil
}
