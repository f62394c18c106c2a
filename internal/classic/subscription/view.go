package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// view is the state of a namespace and of the catalogs that it may use.
type view struct {
	namespace string
	now       metav1.Time
	// before are the Subscriptions as they were read, sorted by name. subs are copies of them that belong to a decision:
	// it and its execution set their statuses.
	before, subs []*v1alpha1.Subscription
	plans        []v1alpha1.InstallPlan
	csvs         []v1alpha1.ClusterServiceVersion
	groups       []operatorsv1.OperatorGroup
	// catalogs are those of the namespace and the global ones.
	catalogs []v1alpha1.CatalogSource
	// related is what belongs to each Subscription, by name.
	related map[string]related
}

// related is what belongs to a Subscription.
type related struct {
	// plan is its InstallPlan; nil when there is none. obsolete is one without steps, which no instance will add.
	plan, obsolete *v1alpha1.InstallPlan
	// awaitsSteps is the rest of newPlanDelay if its InstallPlan is new and has no steps yet; otherwise 0.
	awaitsSteps time.Duration
	// snapshot is that of its catalog; nil when it is not needed or cannot be read. The resolution reports the latter.
	snapshot *resolution.Snapshot
	// isCSVDeleted is true when its ClusterServiceVersion was installed and deleted.
	isCSVDeleted bool
}

// viewReader reads the state of namespaces.
type viewReader struct {
	Options

	// client reads from the cache, live from the API server.
	client, live client.Reader
	// written are the last writes of Subscriptions.
	written *reconcile.WrittenVersions
}

// gatherView reads the state of a namespace from the cache, and what belongs to its Subscriptions. It returns an error while
// the cache does not have the last write of one of them.
func (r *viewReader) gatherView(ctx context.Context, key types.NamespacedName) (*view, error) {
	v, err := r.readView(ctx, r.client, key.Name)
	if err != nil {
		return v, err
	}

	for _, sub := range v.before {
		if err := r.written.CheckOutdated(sub); err != nil {
			return v, err
		}
	}

	for _, sub := range v.before {
		if v.related[sub.Name], err = r.readRelated(ctx, v, sub); err != nil {
			return v, err
		}
	}

	return v, nil
}

// readRelated reads the InstallPlan of a Subscription, and the snapshot of its catalog if its status depends on it.
func (r *viewReader) readRelated(ctx context.Context, v *view, sub *v1alpha1.Subscription) (related, error) {
	var f related
	var err error
	if ref := sub.Status.InstallPlanRef; ref != nil {
		f, err = r.readPlan(ctx, v, ref.Name, sub.Status.State == v1alpha1.SubscriptionStateUpgradePending)
	} else if isGenerated(sub) {
		f, err = r.readPlan(ctx, v, sub.Annotations[v1alpha1.AnnotationGeneratedBy], true)
	}
	if err != nil || f.awaitsSteps > 0 {
		return f, err
	}

	if f.obsolete == nil && v.isCSVDeleted(sub, f.plan) {
		// The cache may have the status of the InstallPlan before the ClusterServiceVersion.
		err := r.live.Get(ctx, client.ObjectKey{Namespace: v.namespace, Name: sub.Status.CurrentCSV}, &v1alpha1.ClusterServiceVersion{})
		if client.IgnoreNotFound(err) != nil {
			return f, fmt.Errorf("reading ClusterServiceVersion %s/%s: %w", v.namespace, sub.Status.CurrentCSV, err)
		}
		f.isCSVDeleted = err != nil
	}

	if sub.Status.InstalledCSV != "" || v.hasCSV(sub.Status.CurrentCSV) {
		if snapshot, err := r.Snapshots.Get(ctx, types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}); err == nil {
			f.snapshot = snapshot
		}
	}

	return f, nil
}

// readView reads the state of a namespace: what isUnchanged compares with a reader, and the rest from the cache. It reads
// nothing else if the namespace has no Subscriptions.
func (r *viewReader) readView(ctx context.Context, reader client.Reader, namespace string) (*view, error) {
	v := &view{namespace: namespace, now: metav1.NewTime(r.Clock.Now()).Rfc3339Copy(), related: map[string]related{}}
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
			v.before = append(v.before, sub)
		}
	}

	v.plans, v.groups = plans.Items, groups.Items
	v.csvs = slices.DeleteFunc(csvs.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csvinfo.IsCopied(&csv) })
	slices.SortFunc(v.before, func(a, b *v1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })

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

// areAllWaiting reports whether every Subscription waits for its InstallPlan to be executed, or to be installed again.
func (v *view) areAllWaiting() bool {
	return !slices.ContainsFunc(v.subs, func(sub *v1alpha1.Subscription) bool {
		f := v.related[sub.Name]
		isWaiting := f.obsolete != nil || f.awaitsSteps > 0 || f.plan != nil && isExecuting(f.plan) && sub.Status.State == v1alpha1.SubscriptionStateUpgradePending
		return !f.isCSVDeleted && !isWaiting
	})
}

// isInstalling reports whether an InstallPlan is being executed, or has been executed so recently that olm-operator may
// not have checked its requirements since.
func (v *view) isInstalling() bool {
	return v.remainingSettleTime() > 0 || slices.ContainsFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling })
}

// planSettleTimeout is how long after the end of an InstallPlan olm-operator may need to check requirements that were not
// met before. It checks them when an object changes, and every minute.
const planSettleTimeout = time.Minute

// remainingSettleTime returns the time until all InstallPlans have been complete for planSettleTimeout; 0 or less means
// that they have.
func (v *view) remainingSettleTime() time.Duration {
	var remaining time.Duration
	for i := range v.plans {
		for _, c := range v.plans[i].Status.Conditions {
			if c.Type == v1alpha1.InstallPlanInstalled && c.Status == corev1.ConditionTrue && c.LastTransitionTime != nil {
				remaining = max(remaining, planSettleTimeout-v.now.Sub(c.LastTransitionTime.Time))
			}
		}
	}
	return remaining
}

// availableCatalogs returns the catalogs that operators of the namespace may be installed from.
func (v *view) availableCatalogs() []v1alpha1.CatalogSource {
	all := slices.Clone(v.catalogs)
	if len(v.groups) == 1 && v.groups[0].Annotations[operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation] == "true" {
		all = slices.DeleteFunc(all, func(c v1alpha1.CatalogSource) bool { return c.Namespace != v.namespace })
	}
	return all
}

// confirmView returns a conflict if the API server has another state of a namespace than a view from the cache.
func (r *viewReader) confirmView(ctx context.Context, v *view) error {
	latest, err := r.readView(ctx, r.live, v.namespace)
	if err != nil {
		return err
	}
	if !v.isUnchanged(latest) {
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "subscriptions"}, v.namespace, errors.New("the cache is outdated"))
	}
	return nil
}

// isUnchanged reports whether a later view has the same state, so that decisions are still valid.
func (v *view) isUnchanged(later *view) bool {
	return slices.EqualFunc(v.before, later.before, func(a, b *v1alpha1.Subscription) bool {
		return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
	}) && equalSets(v.plans, later.plans, func(p v1alpha1.InstallPlan) string {
		return fmt.Sprint(p.UID, p.Spec.Generation, p.Spec.Approved, p.Status.Phase, isPlanUnfinished(&p))
	}) && equalSets(v.csvs, later.csvs, func(csv v1alpha1.ClusterServiceVersion) string {
		return fmt.Sprint(csv.UID, csv.Spec.Replaces, csv.Status.Phase == v1alpha1.CSVPhaseSucceeded)
	}) && equalSets(v.groups, later.groups, func(g operatorsv1.OperatorGroup) string {
		return fmt.Sprint(g.UID, g.Generation, g.Annotations[operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation])
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

// readPlan returns the InstallPlan of a name. If a Subscription waits for the plan and the cache does not have it with steps,
// it reads the plan from the API server, unless the plan is new: the event of its steps triggers the next reconcile. A plan
// that has no steps even there is obsolete, because no instance will add them.
func (r *viewReader) readPlan(ctx context.Context, v *view, name string, awaited bool) (related, error) {
	at := slices.IndexFunc(v.plans, func(p v1alpha1.InstallPlan) bool { return p.Name == name })
	switch {
	case at >= 0 && !isPlanUnfinished(&v.plans[at]):
		return related{plan: &v.plans[at]}, nil
	case !awaited:
		return related{}, nil
	case at >= 0 && v.remainingNewPlanDelay(&v.plans[at]) > 0:
		return related{awaitsSteps: v.remainingNewPlanDelay(&v.plans[at])}, nil
	}

	found := &v1alpha1.InstallPlan{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: v.namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return related{}, nil
	case err != nil:
		return related{}, fmt.Errorf("reading InstallPlan %s/%s: %w", v.namespace, name, err)
	case !found.DeletionTimestamp.IsZero():
		return related{}, nil
	case !isPlanUnfinished(found):
		return related{plan: found}, nil
	}

	return related{obsolete: found}, nil
}

// newPlanDelay is how long after the creation of an InstallPlan its steps are awaited, and the progress of its execution is
// not written. Most executions are over by then, which saves a read and a write for each Subscription. The API server records
// the time of a creation in seconds.
const newPlanDelay = 2 * time.Second

// remainingNewPlanDelay returns the rest of newPlanDelay after the creation of an InstallPlan, or 0.
func (v *view) remainingNewPlanDelay(plan *v1alpha1.InstallPlan) time.Duration {
	age := v.now.Sub(plan.CreationTimestamp.Time)
	if age < 0 {
		return 0
	}
	return max(0, newPlanDelay-age)
}
