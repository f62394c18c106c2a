package installplan

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// stepRetryInterval is how long to wait after a failed step.
	stepRetryInterval = 5 * time.Second
	// apiRetryInterval is the time between two checks whether the API of a CRD is served.
	apiRetryInterval = time.Second
)

// reconciler executes InstallPlans.
type reconciler struct {
	client       client.Client
	executor     executor
	retryTimeout time.Duration
	clock        clock.PassiveClock
	syncs        *clusteroperator.Syncs
	plans        planCounter
}

// Reconcile executes an InstallPlan as far as possible.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lifecycle := &reconcile.Lifecycle[*v1alpha1.InstallPlan]{
		Client: r.client,
		New:    func() *v1alpha1.InstallPlan { return &v1alpha1.InstallPlan{} },
		Steps:  []reconcile.Step[*v1alpha1.InstallPlan]{r.deleteOldPlans, r.setInitialPhase, r.resolveServiceAccount, r.startIfApproved, r.executePlan},
		Summarize: func(plan *v1alpha1.InstallPlan, _ error) {
			if plan.Status.CatalogSources == nil && plan.Status.Phase != v1alpha1.InstallPlanPhaseNone {
				plan.Status.CatalogSources = []string{}
			}
		},
	}

	err := r.client.Get(ctx, req.NamespacedName, &v1alpha1.InstallPlan{})
	if apierrors.IsNotFound(err) {
		r.plans.remove(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	r.plans.add(req.NamespacedName)
	result, err := lifecycle.Reconcile(ctx, req)
	r.syncs.Record(err)

	return result, err
}

// deleteOldPlans deletes old plans of the namespace if this plan is not ignored. It ends the reconcile for a plan that
// is ignored or was deleted.
func (r *reconciler) deleteOldPlans(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if isIgnored(plan) {
		return reconcile.ErrDone
	}

	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.InNamespace(plan.Namespace)); err != nil {
		return fmt.Errorf("listing the InstallPlans of namespace %s: %w", plan.Namespace, err)
	}

	surplus := selectOldPlans(plans.Items)
	for i := range surplus {
		old := &surplus[i]
		if err := r.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting InstallPlan %s/%s: %w", old.Namespace, old.Name, err)
		}
	}

	if slices.ContainsFunc(surplus, func(p v1alpha1.InstallPlan) bool { return p.UID == plan.UID }) {
		return reconcile.ErrDone
	}

	return nil
}

// setInitialPhase sets the first phase of a plan whose creator did not set it.
func (r *reconciler) setInitialPhase(_ context.Context, plan *v1alpha1.InstallPlan) error {
	switch {
	case plan.Status.Phase != v1alpha1.InstallPlanPhaseNone && plan.Status.Phase != v1alpha1.InstallPlanPhasePlanning:
	case plan.Spec.Approved:
		plan.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
	default:
		plan.Status.Phase = v1alpha1.InstallPlanPhaseRequiresApproval
	}

	return nil
}

// resolveServiceAccount determines the service account that executes the plan. It is recorded in the status before any
// step is executed.
func (r *reconciler) resolveServiceAccount(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	var groups operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &groups, client.InNamespace(plan.Namespace)); err != nil {
		return fmt.Errorf("listing the OperatorGroups of namespace %s: %w", plan.Namespace, err)
	}

	account, err := serviceAccountFor(groups.Items)
	if err != nil {
		plan.Status.Message = err.Error()
		setInstalledCondition(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonInstallCheckFailed, err.Error(), r.clock.Now())
		// A change of the OperatorGroup triggers a reconcile.
		return reconcile.Wait(v1alpha1.InstallPlanReasonInstallCheckFailed, 0, fmt.Errorf("attenuated service account query failed - %w", err))
	}

	if c := installedCondition(plan); c != nil && c.Reason == v1alpha1.InstallPlanReasonInstallCheckFailed {
		setInstalledCondition(plan, c.Status, v1alpha1.InstallPlanReasonUnknown, "", r.clock.Now())
		plan.Status.Message = ""
	}
	if !isSameAccount(plan.Status.AttenuatedServiceAccountRef, account) {
		plan.Status.AttenuatedServiceAccountRef = account
		return reconcile.ErrDone // The status update triggers a reconcile.
	}

	return nil
}

func (r *reconciler) startIfApproved(_ context.Context, plan *v1alpha1.InstallPlan) error {
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		return nil
	}
	if !plan.Spec.Approved {
		return reconcile.ErrDone
	}

	plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseInstalling, ""
	return nil
}

func (r *reconciler) executePlan(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		return nil
	}

	now := r.clock.Now()
	if plan.Status.StartTime == nil {
		at := metav1.NewTime(now.Truncate(time.Second))
		plan.Status.StartTime = &at
	}

	err := r.executor.executeSteps(ctx, plan)
	now = r.clock.Now()
	late := isTimedOut(plan, now, r.retryTimeout)
	switch {
	case err == nil && isWaitingForAPI(plan):
		return reconcile.Wait("", apiRetryInterval, fmt.Errorf("waiting for the APIs of definitions"))
	case err == nil:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseComplete, ""
		setInstalledCondition(plan, corev1.ConditionTrue, "", "", now)
		return nil
	case isRetried(plan, err, now, r.retryTimeout):
		plan.Status.Message = fmt.Sprintf("retrying execution due to error: %s", err)
		if !late {
			return reconcile.Wait(v1alpha1.InstallPlanReasonComponentFailed, stepRetryInterval, err)
		}
		// Rights have been missing for a long time: the condition tells the user, although retries continue.
		setInstalledCondition(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Retry(v1alpha1.InstallPlanReasonComponentFailed, err)
	default:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseFailed, err.Error()
		setInstalledCondition(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Stop(v1alpha1.InstallPlanReasonComponentFailed, err)
	}
}
