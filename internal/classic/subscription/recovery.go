package subscription

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// reinstallDelay is the time between the deletion of a ClusterServiceVersion and its reinstallation. Scripts that
// uninstall an operator may delete the ClusterServiceVersion before the Subscription.
const reinstallDelay = 30 * time.Second

// isCSVDeleted reports whether the ClusterServiceVersion of a Subscription was installed and deleted. plan is the
// InstallPlan of the Subscription; nil when it does not exist.
func (v *view) isCSVDeleted(sub *v1alpha1.Subscription, plan *v1alpha1.InstallPlan) bool {
	name := sub.Status.CurrentCSV
	isReplaced := slices.ContainsFunc(v.csvs, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.Spec.Replaces == name })
	if name == "" || v.hasCSV(name) || isReplaced {
		return false
	}
	if plan != nil && plan.Status.Phase == v1alpha1.InstallPlanPhaseComplete {
		return true
	}
	return sub.Status.InstalledCSV == name && (plan == nil || plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed)
}

// recordDeletedCSV reports that the ClusterServiceVersion of a Subscription was deleted. After a delay it resets the
// status, so that the Subscription resolves again. changed reports whether the status must be patched before the next
// resolution, and wait is the rest of the delay.
func recordDeletedCSV(status *v1alpha1.SubscriptionStatus, now metav1.Time) (changed bool, wait time.Duration) {
	if c := findCondition(status, v1alpha1.SubscriptionCSVMissing); c != nil && c.LastTransitionTime != nil {
		if wait = c.LastTransitionTime.Add(reinstallDelay).Sub(now.Time); wait <= 0 {
			removeConditions(status, v1alpha1.SubscriptionCSVMissing)
			status.InstalledCSV = status.CurrentCSV
			status.InstallPlanRef, status.Install, status.CurrentCSV, status.State = nil, nil, "", v1alpha1.SubscriptionStateNone
			return true, 0
		}
	} else {
		wait = reinstallDelay
	}

	setConditionTrue(status, now, v1alpha1.SubscriptionCSVMissing, v1alpha1.ReinstallPending, fmt.Sprintf(
		"ClusterServiceVersion %s was deleted, and is installed again after %s. To uninstall the operator, delete the Subscription first.", status.CurrentCSV, reinstallDelay))
	changed = status.State != v1alpha1.SubscriptionStateUpgradePending
	status.State = v1alpha1.SubscriptionStateUpgradePending
	return changed, wait
}

// installedCondition returns the condition Installed of an InstallPlan; nil when there is none.
func installedCondition(plan *v1alpha1.InstallPlan) *v1alpha1.InstallPlanCondition {
	for i := range plan.Status.Conditions {
		if c := &plan.Status.Conditions[i]; c.Type == v1alpha1.InstallPlanInstalled {
			return c
		}
	}
	return nil
}

// setUpdatePathCondition reports that the channel of a Subscription has neither the installed operator nor an update of
// it, so that it stays as it is. It changes nothing if the catalog does not have the channel.
func (v *view) setUpdatePathCondition(sub *v1alpha1.Subscription, snapshot *resolution.Snapshot) {
	i := slices.IndexFunc(v.csvs, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.Name == sub.Status.InstalledCSV })
	if i < 0 {
		return
	}

	path, ok := snapshot.FindUpdatePath(sub.Spec.Package, sub.Spec.Channel, sub.Status.InstalledCSV, string(v.csvs[i].Spec.Version))
	switch {
	case !ok:
		return
	case path.IsPossible:
		removeConditions(&sub.Status, v1alpha1.SubscriptionUpdatePathMissing)
		return
	}

	remedy := "wait for an update"
	if len(path.Channels) > 0 {
		remedy = fmt.Sprintf("set spec.channel to %s, which has it, or wait for an update", strings.Join(path.Channels, " or "))
	}
	setConditionTrue(&sub.Status, v.now, v1alpha1.SubscriptionUpdatePathMissing, v1alpha1.InstalledCSVNotInChannel, fmt.Sprintf(
		"%s is installed, but channel %q of package %s in catalog %s has neither it nor an update of it, so that it stays as it is: %s. "+
			"OLM does not downgrade operators: to install %s, delete the Subscription and the ClusterServiceVersion, and create the Subscription again.",
		sub.Status.InstalledCSV, sub.Spec.Channel, sub.Spec.Package, snapshot.Catalog, remedy, path.Head))
}
