package subscription

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// isPlanUnfinished reports whether an InstallPlan has no content yet. Its steps are set after the reference in the
// Subscriptions.
func isPlanUnfinished(plan *v1alpha1.InstallPlan) bool {
	return len(plan.Status.Plan) == 0 && len(plan.Status.BundleLookups) == 0 &&
		(plan.Status.Phase == v1alpha1.InstallPlanPhaseNone || plan.Status.Phase == v1alpha1.InstallPlanPhasePlanning)
}

// recordInstallPlan sets the conditions for the InstallPlan of a Subscription. A nil plan does not exist. If the
// Subscription waits for it, its status is reset so that it resolves again; changed reports this.
func recordInstallPlan(status *v1alpha1.SubscriptionStatus, plan *v1alpha1.InstallPlan, now metav1.Time) (changed bool) {
	kinds := []string{v1alpha1.SubscriptionInstallPlanMissing, v1alpha1.SubscriptionInstallPlanPending, v1alpha1.SubscriptionInstallPlanFailed}
	if status.InstallPlanRef == nil {
		return false
	}

	var c v1alpha1.SubscriptionCondition
	switch {
	case plan == nil:
		c = v1alpha1.SubscriptionCondition{Type: v1alpha1.SubscriptionInstallPlanMissing, Reason: v1alpha1.ReferencedInstallPlanNotFound}
	case plan.Status.Phase == v1alpha1.InstallPlanPhaseComplete:
		removeConditions(status, kinds...)
		return false
	case plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
		c = v1alpha1.SubscriptionCondition{Type: v1alpha1.SubscriptionInstallPlanFailed, Reason: v1alpha1.ReasonInstallPlanFailed}
		if installed := installedCondition(plan); installed != nil {
			c.Reason, c.Message = cmp.Or(installed.Reason, c.Reason), installed.Message
		}
		c.Message = joinSentences(cmp.Or(c.Message, "the InstallPlan failed"), fmt.Sprintf(
			"Remove the cause: InstallPlan %s is retried at least every 5 minutes. To have another plan created, delete it.", plan.Name))
	default:
		c = v1alpha1.SubscriptionCondition{
			Type: v1alpha1.SubscriptionInstallPlanPending, Reason: cmp.Or(string(plan.Status.Phase), v1alpha1.InstallPlanNotYetReconciled),
		}
	}

	c.Status = corev1.ConditionTrue
	for _, kind := range kinds {
		if kind != c.Type {
			removeConditions(status, kind)
		}
	}

	setCondition(status, now, c)
	if plan == nil && status.State == v1alpha1.SubscriptionStateUpgradePending {
		status.InstallPlanRef, status.Install, status.CurrentCSV, status.State = nil, nil, "", v1alpha1.SubscriptionStateNone
		return true
	}

	return false
}

// adoptInstallPlan sets the InstallPlan that created a Subscription in its status.
func adoptInstallPlan(sub *v1alpha1.Subscription, plan *v1alpha1.InstallPlan, failForward bool) (changed bool) {
	if sub.Status.InstallPlanRef != nil || plan == nil {
		return false
	}
	setInstallPlanRef(&sub.Status, plan)
	sub.Status.State = pendingState(plan, failForward)
	sub.Status.CurrentCSV = sub.Spec.StartingCSV
	return true
}

// pendingState returns the state of a Subscription whose ClusterServiceVersion does not exist yet.
func pendingState(plan *v1alpha1.InstallPlan, failForward bool) v1alpha1.SubscriptionState {
	if failForward && plan != nil && plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed {
		return v1alpha1.SubscriptionStateFailed
	}
	return v1alpha1.SubscriptionStateUpgradePending
}

// recordInstalledCSV sets state and installedCSV by whether the chosen ClusterServiceVersion exists.
func recordInstalledCSV(status *v1alpha1.SubscriptionStatus, plan *v1alpha1.InstallPlan, hasCSV func(string) bool, failForward bool) (changed bool) {
	if status.CurrentCSV == "" {
		return false
	}

	state, installed := pendingState(plan, failForward), status.InstalledCSV
	if hasCSV(status.CurrentCSV) {
		state, installed = v1alpha1.SubscriptionStateAtLatest, status.CurrentCSV
	}

	changed = status.State != state || status.InstalledCSV != installed
	status.State, status.InstalledCSV = state, installed
	return changed
}

// setInstallPlanRef sets the references to an InstallPlan in a status.
func setInstallPlanRef(status *v1alpha1.SubscriptionStatus, plan *v1alpha1.InstallPlan) {
	status.InstallPlanRef = &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.InstallPlanKind,
		Namespace: plan.Namespace, Name: plan.Name, UID: plan.UID, ResourceVersion: plan.ResourceVersion,
	}
	status.Install = &v1alpha1.InstallPlanReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.InstallPlanKind, Name: plan.Name, UID: plan.UID,
	}
	status.InstallPlanGeneration = plan.Spec.Generation
}

// setDeprecationConditions sets the deprecation conditions of the installed operator. It changes nothing if the
// catalog does not contain the operator.
func setDeprecationConditions(sub *v1alpha1.Subscription, snapshot *resolution.Snapshot, now metav1.Time) {
	if sub.Status.InstalledCSV == "" {
		return
	}

	e := snapshot.Find(sub.Spec.Package, sub.Spec.Channel, sub.Status.InstalledCSV)
	if e == nil {
		return
	}

	pkg := snapshot.Packages[sub.Spec.Package]
	channel := ""
	if sub.Spec.Channel != "" {
		channel = pkg.DeprecatedChannels[sub.Spec.Channel]
	}

	var all []string
	for _, deprecation := range []struct{ kind, reference, message string }{
		{v1alpha1.SubscriptionPackageDeprecated, "olm.package/" + sub.Spec.Package, pkg.Deprecation},
		{v1alpha1.SubscriptionChannelDeprecated, "olm.channel/" + sub.Spec.Channel, channel},
		{v1alpha1.SubscriptionBundleDeprecated, "olm.bundle/" + e.Name, e.Deprecation},
	} {
		if deprecation.message == "" {
			removeConditions(&sub.Status, deprecation.kind)
			continue
		}
		text := deprecation.reference + ": " + deprecation.message
		all = append(all, text)
		setConditionTrue(&sub.Status, now, deprecation.kind, "", text)
	}

	if len(all) == 0 {
		removeConditions(&sub.Status, v1alpha1.SubscriptionDeprecated)
		return
	}

	setConditionTrue(&sub.Status, now, v1alpha1.SubscriptionDeprecated, "", strings.Join(all, "; "))
}
