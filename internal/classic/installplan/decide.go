package installplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// maxKeptPlans limits the plans that are kept for the same Subscriptions of a namespace.
	maxKeptPlans = 5
	// maxDeletedPlans limits the plans that are deleted in one reconcile.
	maxDeletedPlans = 5
)

// facts determine what must be done for a plan.
type facts struct {
	now time.Time
	// plans and groups are those of the namespace. They are empty for a plan that is ignored.
	plans  []v1alpha1.InstallPlan
	groups []operatorsv1.OperatorGroup
	// subs are the Subscriptions of the namespace of a failed plan. They are empty for any other plan.
	subs []v1alpha1.Subscription
}

// decision is what must be done for a plan.
type decision struct {
	// plan is a copy of the plan, in whose status the decision and its execution are recorded.
	plan *v1alpha1.InstallPlan
	// surplus are the old plans to delete.
	surplus []v1alpha1.InstallPlan
	// accountErr is why there is no service account to execute the plan.
	accountErr error
	// executes is true when the steps are executed.
	executes bool
}

// decide returns what must be done for a plan. The service account that executes the plan is recorded in the status
// before any step is executed.
func decide(plan *v1alpha1.InstallPlan, f *facts) *decision {
	d := &decision{plan: plan.DeepCopy()}
	if isIgnored(plan) || isFailedForGood(plan, f) {
		return d
	}

	d.surplus = selectOldPlans(f.plans)
	if slices.ContainsFunc(d.surplus, func(p v1alpha1.InstallPlan) bool { return p.UID == plan.UID }) {
		return d
	}

	status := &d.plan.Status
	if phase := nextPhase(plan); phase != status.Phase {
		status.Phase, status.Message = phase, ""
	}
	if isRecorded := d.recordServiceAccount(f); !isRecorded {
		return d // An error is awaited, and the update of the status triggers a reconcile.
	}
	if status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval {
		status.StartTime = nil // The next approval starts the retry timeout again.
		return d
	}

	d.executes = true
	if status.StartTime == nil {
		at := metav1.NewTime(f.now.Truncate(time.Second))
		status.StartTime = &at
	}

	return d
}

// nextPhase returns the phase of a plan before its steps are executed. It follows the approval, which can be withdrawn.
// A failed plan stays failed until its steps are done.
func nextPhase(plan *v1alpha1.InstallPlan) v1alpha1.InstallPlanPhase {
	switch {
	case plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
		return v1alpha1.InstallPlanPhaseFailed
	case plan.Spec.Approved:
		return v1alpha1.InstallPlanPhaseInstalling
	default:
		return v1alpha1.InstallPlanPhaseRequiresApproval
	}
}

// isFailedForGood reports whether a plan has failed and is not retried. A failed plan is retried while a Subscription
// refers to it, or if a service account executes it.
func isFailedForGood(plan *v1alpha1.InstallPlan, f *facts) bool {
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed {
		return false
	}

	isReferred := slices.ContainsFunc(f.subs, func(sub v1alpha1.Subscription) bool {
		ref := sub.Status.InstallPlanRef
		return ref != nil && ref.Name == plan.Name && ref.UID == plan.UID
	})
	isNeeded := isReferred || plan.Status.AttenuatedServiceAccountRef != nil

	return !isNeeded || !plan.Spec.Approved || isSuperseded(plan, f.plans)
}

// isSuperseded reports whether a newer plan has a step for an object that a plan has not installed yet. The plan would
// replace the object by an older one.
func isSuperseded(plan *v1alpha1.InstallPlan, plans []v1alpha1.InstallPlan) bool {
	type objectKey struct{ group, kind, name string }
	missing := map[objectKey]bool{}
	for _, step := range plan.Status.Plan {
		if step != nil && !isStepDone(step) {
			missing[objectKey{step.Resource.Group, step.Resource.Kind, step.Resource.Name}] = true
		}
	}

	for i := range plans {
		if plans[i].Spec.Generation <= plan.Spec.Generation {
			continue
		}
		for _, step := range plans[i].Status.Plan {
			if step != nil && missing[objectKey{step.Resource.Group, step.Resource.Kind, step.Resource.Name}] {
				return true
			}
		}
	}

	return false
}

// recordServiceAccount determines the service account that executes the plan, and records it. It reports whether the
// right one was recorded already.
func (d *decision) recordServiceAccount(f *facts) bool {
	account, err := serviceAccountFor(f.groups)
	if err != nil {
		d.accountErr, d.plan.Status.Message = err, err.Error()
		setInstalledCondition(d.plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonInstallCheckFailed, err.Error(), f.now)
		return false
	}

	if c := installedCondition(d.plan); c != nil && c.Reason == v1alpha1.InstallPlanReasonInstallCheckFailed {
		setInstalledCondition(d.plan, c.Status, v1alpha1.InstallPlanReasonUnknown, "", f.now)
		d.plan.Status.Message = ""
	}
	if isSameAccount(d.plan.Status.AttenuatedServiceAccountRef, account) {
		return true
	}

	d.plan.Status.AttenuatedServiceAccountRef = account
	return false
}

// concludeExecution sets the status of a plan whose steps were executed with a result. It returns an error that states
// when the plan is executed again; nil when it is complete.
func concludeExecution(plan *v1alpha1.InstallPlan, err error, crdsChanged, now time.Time, retryTimeout time.Duration) error {
	switch {
	case err == nil && isWaitingForAPI(plan):
		return reconcile.Wait("", apiRetryInterval, fmt.Errorf("waiting for the APIs of definitions"))
	case err == nil:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseComplete, ""
		setInstalledCondition(plan, corev1.ConditionTrue, "", "", now)
		return nil
	case plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed && isRetried(plan, err, now, retryTimeout):
		plan.Status.Message = fmt.Sprintf("retrying execution due to error: %s", err)
		if !isTimedOut(plan, now, retryTimeout) {
			return reconcile.Wait(v1alpha1.InstallPlanReasonComponentFailed, stepRetryInterval, err)
		}
		// Rights have been missing for a long time: the condition tells the user, although retries continue.
		setInstalledCondition(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Retry(v1alpha1.InstallPlanReasonComponentFailed, err)
	default:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseFailed, err.Error()
		setInstalledCondition(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Wait(v1alpha1.InstallPlanReasonComponentFailed, failedRetryInterval(plan, crdsChanged, now), err)
	}
}

// failedRetryInterval returns the time until the next attempt of a failed plan. It is the time since the first one,
// within limits, so that it doubles with each attempt, also after a restart. It starts again with a change of the CRDs,
// because a kind is served some time after its CRD was created.
func failedRetryInterval(plan *v1alpha1.InstallPlan, crdsChanged, now time.Time) time.Duration {
	if plan.Status.StartTime == nil {
		return minFailedRetryInterval
	}
	since := plan.Status.StartTime.Time
	if crdsChanged.After(since) {
		since = crdsChanged
	}
	return min(max(now.Sub(since), minFailedRetryInterval), maxFailedRetryInterval)
}

// isIgnored reports whether a plan needs no work: it is complete, or has no steps yet.
func isIgnored(plan *v1alpha1.InstallPlan) bool {
	return plan.Status.Phase == v1alpha1.InstallPlanPhaseComplete ||
		len(plan.Status.Plan) == 0 && (len(plan.Status.BundleLookups) == 0 || slices.ContainsFunc(plan.Status.BundleLookups, isNotPersisted))
}

// isNotPersisted reports whether the steps of a bundle are not in the plan yet.
func isNotPersisted(lookup v1alpha1.BundleLookup) bool {
	return slices.ContainsFunc(lookup.Conditions, func(c v1alpha1.BundleLookupCondition) bool {
		return c.Type == v1alpha1.BundleLookupNotPersisted && c.Status == corev1.ConditionTrue
	})
}

// serviceAccountFor returns the service account that executes the plans of a namespace with these OperatorGroups; nil
// means the controller itself. The error message is shown to users.
func serviceAccountFor(groups []operatorsv1.OperatorGroup) (*corev1.ObjectReference, error) {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g operatorsv1.OperatorGroup) bool { return len(g.Status.Namespaces) == 0 })
	switch len(groups) {
	case 0:
		return nil, fmt.Errorf("no operator group found that is managing this namespace")
	case 1:
	default:
		return nil, fmt.Errorf("more than one operator group(s) are managing this namespace count=%d", len(groups))
	}

	return membership.ServiceAccountOf(&groups[0])
}

// isSameAccount reports whether two references are to the same account. A recreated account has another UID.
func isSameAccount(a, b *corev1.ObjectReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID
}

// isStepDone reports whether a step needs no further execution. A created CRD is checked until its API is served.
func isStepDone(step *v1alpha1.Step) bool {
	switch step.Status {
	case v1alpha1.StepStatusPresent, v1alpha1.StepStatusCreated:
		return true
	case v1alpha1.StepStatusWaitingForAPI:
		return step.Resource.Kind != kindCRD
	default:
		return false
	}
}

func isWaitingForAPI(plan *v1alpha1.InstallPlan) bool {
	return slices.ContainsFunc(plan.Status.Plan, func(s *v1alpha1.Step) bool {
		return s != nil && s.Status == v1alpha1.StepStatusWaitingForAPI
	})
}

// isRetried reports whether a plan is retried after an error. Missing rights may be granted at any time, so such
// errors are always retried.
func isRetried(plan *v1alpha1.InstallPlan, err error, now time.Time, timeout time.Duration) bool {
	return apierrors.IsForbidden(err) || !isTimedOut(plan, now, timeout)
}

// isTimedOut reports whether the retry timeout of a plan has passed.
func isTimedOut(plan *v1alpha1.InstallPlan, now time.Time, timeout time.Duration) bool {
	return plan.Status.StartTime != nil && now.Sub(plan.Status.StartTime.Time) >= timeout
}

// selectOldPlans returns the plans of a namespace to delete. Of the plans of the same Subscriptions it keeps those of the
// highest generations, and of these the newest.
func selectOldPlans(plans []v1alpha1.InstallPlan) []v1alpha1.InstallPlan {
	if len(plans) <= maxKeptPlans {
		return nil
	}

	sorted := slices.SortedFunc(slices.Values(plans), func(a, b v1alpha1.InstallPlan) int {
		return cmp.Or(
			cmp.Compare(a.Spec.Generation, b.Spec.Generation),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})

	newer := map[string]int{}
	var surplus []v1alpha1.InstallPlan
	for _, plan := range slices.Backward(sorted) {
		owners := joinOwners(&plan)
		if newer[owners]++; newer[owners] > maxKeptPlans {
			surplus = append(surplus, plan)
		}
	}

	slices.Reverse(surplus)
	return surplus[:min(len(surplus), maxDeletedPlans)]
}

// joinOwners returns the UIDs of the owners of a plan as one text.
func joinOwners(plan *v1alpha1.InstallPlan) string {
	var owners []string
	for _, owner := range plan.OwnerReferences {
		owners = append(owners, string(owner.UID))
	}
	slices.Sort(owners)
	return strings.Join(owners, " ")
}

// installedCondition returns the condition Installed; nil when there is none.
func installedCondition(plan *v1alpha1.InstallPlan) *v1alpha1.InstallPlanCondition {
	i := slices.IndexFunc(plan.Status.Conditions, func(c v1alpha1.InstallPlanCondition) bool { return c.Type == v1alpha1.InstallPlanInstalled })
	if i < 0 {
		return nil
	}
	return &plan.Status.Conditions[i]
}

// setInstalledCondition sets the condition Installed.
func setInstalledCondition(plan *v1alpha1.InstallPlan, status corev1.ConditionStatus, reason, message string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	have := installedCondition(plan)
	if have == nil {
		plan.Status.Conditions = append(plan.Status.Conditions, v1alpha1.InstallPlanCondition{Type: v1alpha1.InstallPlanInstalled})
		have = installedCondition(plan)
	}
	if have.Status == status && have.Reason == reason && have.Message == message {
		return
	}
	if have.Status != status {
		have.LastTransitionTime = &at
	}

	have.Status, have.Reason, have.Message, have.LastUpdateTime = status, reason, message, &at
}
