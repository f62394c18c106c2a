package installplan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	// maxKeptPlans limits the plans of a namespace that are kept.
	maxKeptPlans = 5
	// maxDeletedPlans limits the plans that are deleted in one reconcile.
	maxDeletedPlans = 5
)

// isIgnored reports whether a plan needs no work: it has ended, or has no steps yet.
func isIgnored(plan *v1alpha1.InstallPlan) bool {
	switch plan.Status.Phase {
	case v1alpha1.InstallPlanPhaseComplete, v1alpha1.InstallPlanPhaseFailed:
		return true
	default:
		return len(plan.Status.Plan) == 0 && (len(plan.Status.BundleLookups) == 0 || slices.ContainsFunc(plan.Status.BundleLookups, isNotPersisted))
	}
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

	group := groups[0]
	if group.Spec.ServiceAccountName == "" {
		return nil, nil
	}
	if ref := group.Status.ServiceAccountRef; ref != nil && ref.Name == group.Spec.ServiceAccountName {
		return ref.DeepCopy(), nil
	}

	return nil, fmt.Errorf("please make sure the service account exists. sa=%s operatorgroup=%s/%s", group.Spec.ServiceAccountName, group.Namespace, group.Name)
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

// selectOldPlans returns the plans of a namespace to delete: those of the lowest generations, and of these the oldest.
func selectOldPlans(plans []v1alpha1.InstallPlan) []v1alpha1.InstallPlan {
	surplus := min(len(plans)-maxKeptPlans, maxDeletedPlans)
	if surplus <= 0 {
		return nil
	}

	sorted := slices.SortedFunc(slices.Values(plans), func(a, b v1alpha1.InstallPlan) int {
		return cmp.Or(
			cmp.Compare(a.Spec.Generation, b.Spec.Generation),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})

	return sorted[:surplus]
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
