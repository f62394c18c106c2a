package subscription

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// decision is the next step for the Subscriptions of a namespace.
type decision struct {
	// view has the new statuses.
	*view
	// obsolete are the InstallPlans to delete, because they will never have steps.
	obsolete []*v1alpha1.InstallPlan
	// resolves is true when the Subscriptions are resolved. Otherwise their statuses are only patched.
	resolves bool
	// requeueAfter is the time until the next reconcile without an event; 0 means none. Execution may shorten it.
	requeueAfter time.Duration
}

// decide returns the next step for the Subscriptions of a namespace.
func decide(v *view) *decision {
	d := &decision{view: v.withStatusCopies()}
	if wait := d.remainingExecutionDelay(); wait > 0 {
		d.requeueAfter = wait
		return d
	}

	changed := false
	for _, sub := range d.subs {
		f := v.related[sub.Name]
		if f.awaitsSteps > 0 {
			d.requeueWithin(f.awaitsSteps)
			continue // Its status is that of the plan with steps.
		}
		if f.obsolete != nil {
			d.obsolete = append(d.obsolete, f.obsolete)
		}
		changed = d.refreshStatus(sub, f) || changed
	}

	switch {
	case len(d.subs) == 0:
	case changed || d.areAllWaiting():
		// The status update triggers the next reconcile.
	case len(d.groups) != 1:
		// A change of the OperatorGroups triggers the next reconcile.
		d.setResolutionFailed(d.now, v1alpha1.ErrorPreventedResolution, describeGroupCount(d.namespace, d.groups))
	default:
		d.resolves = true
		if settles := d.remainingSettleTime(); settles > 0 && resolution.IsUpdateInProgress(d.csvs, true) {
			d.requeueWithin(settles)
		}
	}

	return d
}

// remainingExecutionDelay returns how long the statuses of the Subscriptions stay as they are, because each of them waits for
// the execution of a new InstallPlan. The end of an execution triggers the next reconcile.
func (v *view) remainingExecutionDelay() time.Duration {
	var remaining time.Duration
	if !v.areAllWaiting() {
		return 0
	}
	for _, sub := range v.subs {
		f := v.related[sub.Name]
		wait := f.awaitsSteps
		if f.plan != nil && f.plan.Status.Phase == v1alpha1.InstallPlanPhaseInstalling && refersTo(sub, f.plan) {
			wait = v.remainingNewPlanDelay(f.plan)
		}
		if wait == 0 {
			return 0
		}
		remaining = max(remaining, wait)
	}
	return remaining
}

// withStatusCopies returns the view with new copies of the Subscriptions.
func (v *view) withStatusCopies() *view {
	w := *v
	w.subs = make([]*v1alpha1.Subscription, 0, len(v.before))
	for _, sub := range v.before {
		w.subs = append(w.subs, sub.DeepCopy())
	}
	return &w
}

// requeueWithin limits the time until the next reconcile.
func (d *decision) requeueWithin(limit time.Duration) {
	if d.requeueAfter == 0 || limit < d.requeueAfter {
		d.requeueAfter = limit
	}
}

// refreshStatus sets the state of catalogs, of the InstallPlan and of the operator in the status of a Subscription.
// changed is true when the status must be patched before the next resolution, because it affects it.
func (d *decision) refreshStatus(sub *v1alpha1.Subscription, f related) (changed bool) {
	v := d.view
	updateCatalogHealth(sub, v.catalogs, v.now)
	if f.isCSVDeleted {
		changed, wait := recordDeletedCSV(&sub.Status, v.now)
		if wait > 0 {
			d.requeueWithin(wait)
		}
		return changed
	}

	removeConditions(&sub.Status, v1alpha1.SubscriptionCSVMissing)
	if sub.Status.InstallPlanRef != nil {
		changed = recordInstallPlan(&sub.Status, f.plan, v.now)
	} else if isGenerated(sub) {
		changed = adoptInstallPlan(sub, f.plan, v.allowsFailForward())
	}

	return v.recordOperator(sub, f.plan, f.snapshot) || changed
}

// recordOperator sets the state of the installed operator in the status of a Subscription. It sets no conditions from the
// catalog if snapshot is nil. changed is true when the status must be patched before the next resolution.
func (v *view) recordOperator(sub *v1alpha1.Subscription, plan *v1alpha1.InstallPlan, snapshot *resolution.Snapshot) (changed bool) {
	changed = recordInstalledCSV(&sub.Status, plan, v.hasCSV, v.allowsFailForward())
	if sub.Status.InstalledCSV != "" && snapshot != nil {
		setDeprecationConditions(sub, snapshot, v.now)
		v.setUpdatePathCondition(sub, snapshot)
	}
	return changed
}

// isGenerated reports whether an InstallPlan created a Subscription, which has not adopted the plan yet.
func isGenerated(sub *v1alpha1.Subscription) bool {
	return sub.Annotations[v1alpha1.AnnotationGeneratedBy] != "" && sub.Status.InstallPlanRef == nil && sub.Status.InstalledCSV == ""
}

// isNewSubscription reports whether nothing was resolved for a Subscription yet.
func isNewSubscription(sub *v1alpha1.Subscription) bool {
	return sub.Status.CurrentCSV == "" && sub.Status.InstalledCSV == "" && sub.Status.InstallPlanRef == nil
}

// adoptOrphanedCSVs sets the states of new Subscriptions whose operators are installed already. It needs the same snapshots
// as the resolution: with others, the resolution could know the bundle of an operator that was not adopted, which is a
// conflict. It reports whether it did so.
func (v *view) adoptOrphanedCSVs(offers []resolution.Offer) bool {
	isAdopted := false
	for _, sub := range v.subs {
		catalog := types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}
		at := slices.IndexFunc(offers, func(o resolution.Offer) bool { return o.Catalog == catalog })
		if at >= 0 && v.adoptOrphanedCSV(sub, offers[at].Snapshot) {
			v.recordOperator(sub, nil, offers[at].Snapshot)
			isAdopted = true
		}
	}
	return isAdopted
}

// adoptOrphanedCSV sets currentCSV of a new Subscription to an installed operator that is in its channel and has no
// Subscription, because its Subscription was deleted. It reports whether it did so.
func (v *view) adoptOrphanedCSV(sub *v1alpha1.Subscription, snapshot *resolution.Snapshot) bool {
	if !isNewSubscription(sub) {
		return false
	}

	name := resolution.FindUnsubscribedCSV(sub.Spec.Package, v.csvs, v.subs)
	if name == "" || (sub.Spec.StartingCSV != "" && sub.Spec.StartingCSV != name) {
		return false
	}
	if snapshot.Find(sub.Spec.Package, sub.Spec.Channel, name) == nil {
		return false
	}

	sub.Status.CurrentCSV = name
	return true
}

// setResolutionFailed sets the condition ResolutionFailed in all statuses.
func (v *view) setResolutionFailed(now metav1.Time, reason, message string) {
	for _, sub := range v.subs {
		setConditionTrue(&sub.Status, now, v1alpha1.SubscriptionResolutionFailed, reason, message)
	}
}
