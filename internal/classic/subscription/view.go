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

// view is what is there in a namespace, and of the catalogs that it may use.
type view struct {
	namespace string
	// subs, by name, are changed as the pass goes; before are they as they were read.
	subs, before []*v1alpha1.Subscription
	plans        []v1alpha1.InstallPlan
	csvs         []v1alpha1.ClusterServiceVersion
	groups       []operatorsv1.OperatorGroup
	// catalogs of the namespace, and global ones.
	catalogs []v1alpha1.CatalogSource
}

// look reads what is there. Beside Subscriptions nothing is read in a namespace that has none.
func (r *reconciler) look(ctx context.Context, reader client.Reader, namespace string) (*view, error) {
	v := &view{namespace: namespace}
	var subs v1alpha1.SubscriptionList
	var plans v1alpha1.InstallPlanList
	var csvs v1alpha1.ClusterServiceVersionList
	var groups operatorsv1.OperatorGroupList
	in := client.InNamespace(namespace)
	if err := reader.List(ctx, &subs, in); err != nil || len(subs.Items) == 0 {
		return v, wrap("Subscriptions", namespace, err)
	}

	err := errors.Join(
		wrap("InstallPlans", namespace, reader.List(ctx, &plans, in)),
		wrap("ClusterServiceVersions", namespace, reader.List(ctx, &csvs, in)),
		wrap("OperatorGroups", namespace, reader.List(ctx, &groups, in)),
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
			return nil, wrap("CatalogSources", ns, err)
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

func wrap(kinds, namespace string, err error) error {
	if err != nil {
		return fmt.Errorf("listing the %s of namespace %s: %w", kinds, namespace, err)
	}
	return nil
}

// isThere reports whether the namespace has a ClusterServiceVersion.
func (v *view) isThere(name string) bool {
	return slices.ContainsFunc(v.csvs, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.Name == name })
}

// failForward reports whether operators that failed may be replaced.
func (v *view) failForward() bool {
	return len(v.groups) == 1 && v.groups[0].Spec.UpgradeStrategy == operatorsv1.UpgradeStrategyUnsafeFailForward
}

// isWaiting reports whether all that was asked for is under way.
func (v *view) isWaiting() bool {
	return !slices.ContainsFunc(v.subs, func(sub *v1alpha1.Subscription) bool {
		return sub.Status.InstallPlanRef == nil || sub.Status.State != v1alpha1.SubscriptionStateUpgradePending
	})
}

// isInstalling reports whether a plan is being executed.
func (v *view) isInstalling() bool {
	return slices.ContainsFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling })
}

// offering are the catalogs that operators of the namespace may come from.
func (v *view) offering() []v1alpha1.CatalogSource {
	all := slices.Clone(v.catalogs)
	if len(v.groups) == 1 && v.groups[0].Annotations[operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation] == "true" {
		all = slices.DeleteFunc(all, func(c v1alpha1.CatalogSource) bool { return c.Namespace != v.namespace })
	}
	return all
}

// isAsSeen reports whether a later view shows what this one was made of, so that what was decided still holds.
func (v *view) isAsSeen(later *view) bool {
	return slices.EqualFunc(v.before, later.before, func(a, b *v1alpha1.Subscription) bool {
		return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
	}) && equalSets(v.plans, later.plans, func(p v1alpha1.InstallPlan) string {
		return fmt.Sprint(p.UID, p.Spec.Generation, isUnfinished(&p))
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

// plan returns the plan of a name; nil when there is none. A cache may be behind: for a Subscription that waits for
// the plan, it is looked at twice whether it is there, and has its steps. One that will never have any is deleted.
func (r *reconciler) plan(ctx context.Context, v *view, name string, isAwaited bool) (*v1alpha1.InstallPlan, error) {
	at := slices.IndexFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Name == name })
	switch {
	case at >= 0 && !isUnfinished(&v.plans[at]):
		return &v.plans[at], nil
	case !isAwaited:
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
	case !isUnfinished(plan):
		return plan, nil
	}

	return nil, r.discard(ctx, plan)
}

// discard deletes a plan that was begun by a program that has ended since.
func (r *reconciler) discard(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	err := r.client.Delete(ctx, plan, client.Preconditions{UID: &plan.UID, ResourceVersion: &plan.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting InstallPlan %s/%s, which was not finished: %w", plan.Namespace, plan.Name, err)
	}
	return nil
}
