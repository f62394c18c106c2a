package subscription

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// waitUntilReady waits until the newest version of a Subscription runs, or a person must act.
func waitUntilReady(ctx context.Context, c client.Client, wait *action.Wait, progress report.Progress, sub *v1alpha1.Subscription) error {
	object := describeSubscription(sub.Namespace, sub.Name)
	return wait.Poll(ctx, object, progress, func(ctx context.Context) (action.Outcome, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(sub), sub); err != nil {
			return action.Outcome{}, err
		}
		facts, err := readFacts(ctx, c, sub)
		if err != nil {
			return action.Outcome{}, err
		}
		return waitOutcome(&facts), nil
	})
}

// waitOutcome returns how far a Subscription is.
func waitOutcome(f *Facts) action.Outcome {
	v := assessFacts(f)
	o := action.Outcome{Parts: progressParts(f, v), Done: v.state == StateReady, Pending: v.oneLineMessage()}
	if len(v.advice) > 0 {
		o.Advice = v.advice[0]
	}
	if v.state == StateAwaitingApproval || v.state == StateFailed && isFinal(f) {
		o.Failed = errors.New(v.oneLineMessage())
	}
	return o
}

// isFinal reports whether a failure ends a wait. A catalog may still start, and OLM retries a
// resolution and an operator whose requirements are not met.
func isFinal(f *Facts) bool {
	return f.Catalog != nil && isCatalogServing(f.Catalog) &&
		(findCondition(f.Subscription, v1alpha1.SubscriptionResolutionFailed) != nil || f.Plan != nil && f.Plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed)
}

// progressParts returns the parts of an installation for display.
func progressParts(f *Facts, v *verdict) []report.Part {
	isResolved := f.Plan != nil || f.CSV != nil
	isPlanDone := f.CSV != nil && (f.Plan == nil || f.Plan.Status.Phase == v1alpha1.InstallPlanPhaseComplete)
	done := []bool{isResolved, isPlanDone, v.state == StateReady}
	parts := []report.Part{{Name: "resolve"}, {Name: "install plan"}, {Name: "operator"}}
	current := false
	for i := range parts {
		switch {
		case done[i]:
			parts[i].State = report.StateDone
		case current:
			parts[i].State = report.StateWaiting
		default:
			current = true
			parts[i].State, parts[i].Detail = report.StateCurrent, v.oneLineMessage()
			if v.state == StateFailed || v.state == StateDegraded {
				parts[i].State = report.StateFailed
			}
		}
	}
	return parts
}
