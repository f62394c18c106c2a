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
	// keptPlans is how many plans of a namespace are kept.
	keptPlans = 5
	// maxRemoved is how many are deleted at once.
	maxRemoved = 5
)

// isIgnored reports whether nothing is done about a plan: it has nothing to do yet, or it has ended.
func isIgnored(plan *v1alpha1.InstallPlan) bool {
	switch plan.Status.Phase {
	case v1alpha1.InstallPlanPhaseComplete, v1alpha1.InstallPlanPhaseFailed:
		return true
	default:
		return len(plan.Status.Plan) == 0 && (len(plan.Status.BundleLookups) == 0 || slices.ContainsFunc(plan.Status.BundleLookups, isMissing))
	}
}

// isMissing reports whether the steps of a bundle are not in the plan yet.
func isMissing(lookup v1alpha1.BundleLookup) bool {
	return slices.ContainsFunc(lookup.Conditions, func(c v1alpha1.BundleLookupCondition) bool {
		return c.Type == v1alpha1.BundleLookupNotPersisted && c.Status == corev1.ConditionTrue
	})
}

// accountOf returns the ServiceAccount with whose rights the plans of a namespace are executed, given its
// OperatorGroups; nil is the controller's own. The error's text is for people.
func accountOf(groups []operatorsv1.OperatorGroup) (*corev1.ObjectReference, error) {
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

// sameAccount reports whether two references are to the same account. One that was made anew is another.
func sameAccount(a, b *corev1.ObjectReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID
}

// isDone reports whether a step is not tried again. A definition that was created is looked at until its
// API is served.
func isDone(step *v1alpha1.Step) bool {
	switch step.Status {
	case v1alpha1.StepStatusPresent, v1alpha1.StepStatusCreated:
		return true
	case v1alpha1.StepStatusWaitingForAPI:
		return step.Resource.Kind != kindCRD
	default:
		return false
	}
}

func isWaiting(plan *v1alpha1.InstallPlan) bool {
	return slices.ContainsFunc(plan.Status.Plan, func(s *v1alpha1.Step) bool {
		return s != nil && s.Status == v1alpha1.StepStatusWaitingForAPI
	})
}

// goesOn reports whether a plan whose execution failed is tried again. Rights that lack may be granted at
// any time.
func goesOn(plan *v1alpha1.InstallPlan, err error, now time.Time, timeout time.Duration) bool {
	return apierrors.IsForbidden(err) || !isLate(plan, now, timeout)
}

// isLate reports whether a plan is tried for longer than it may.
func isLate(plan *v1alpha1.InstallPlan, now time.Time, timeout time.Duration) bool {
	return plan.Status.StartTime != nil && now.Sub(plan.Status.StartTime.Time) >= timeout
}

// obsolete returns those of a namespace's plans that are not kept: those of the lowest generations, and of
// these the oldest.
func obsolete(plans []v1alpha1.InstallPlan) []v1alpha1.InstallPlan {
	surplus := min(len(plans)-keptPlans, maxRemoved)
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

// condition returns the condition Installed, or nil.
func condition(plan *v1alpha1.InstallPlan) *v1alpha1.InstallPlanCondition {
	i := slices.IndexFunc(plan.Status.Conditions, func(c v1alpha1.InstallPlanCondition) bool { return c.Type == v1alpha1.InstallPlanInstalled })
	if i < 0 {
		return nil
	}
	return &plan.Status.Conditions[i]
}

// setInstalled sets the condition Installed.
func setInstalled(plan *v1alpha1.InstallPlan, status corev1.ConditionStatus, reason, message string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	have := condition(plan)
	if have == nil {
		plan.Status.Conditions = append(plan.Status.Conditions, v1alpha1.InstallPlanCondition{Type: v1alpha1.InstallPlanInstalled})
		have = condition(plan)
	}
	if have.Status == status && have.Reason == reason && have.Message == message {
		return
	}
	if have.Status != status {
		have.LastTransitionTime = &at
	}

	have.Status, have.Reason, have.Message, have.LastUpdateTime = status, reason, message, &at
}
