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
	// tryAgain is how long to wait after a step failed.
	tryAgain = 5 * time.Second
	// lookAgain is how long to wait for the API of a definition.
	lookAgain = time.Second
)

// reconciler executes plans.
type reconciler struct {
	client  client.Client
	run     executor
	timeout time.Duration
	clock   clock.PassiveClock
	syncs   *clusteroperator.Syncs
	count   counter
}

// Reconcile does what can be done about a plan.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lifecycle := &reconcile.Lifecycle[*v1alpha1.InstallPlan]{
		Client: r.client,
		New:    func() *v1alpha1.InstallPlan { return &v1alpha1.InstallPlan{} },
		Steps:  []reconcile.Step[*v1alpha1.InstallPlan]{r.collect, r.begin, r.check, r.approve, r.execute},
		Summarize: func(plan *v1alpha1.InstallPlan, _ error) {
			if plan.Status.CatalogSources == nil && plan.Status.Phase != v1alpha1.InstallPlanPhaseNone {
				plan.Status.CatalogSources = []string{}
			}
		},
	}

	err := r.client.Get(ctx, req.NamespacedName, &v1alpha1.InstallPlan{})
	if apierrors.IsNotFound(err) {
		r.count.gone(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	r.count.seen(req.NamespacedName)
	result, err := lifecycle.Reconcile(ctx, req)
	r.syncs.Seen(err)

	return result, err
}

// collect deletes old plans of the namespace, when there is something to do about a newer one.
func (r *reconciler) collect(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if isIgnored(plan) {
		return reconcile.ErrDone
	}

	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.InNamespace(plan.Namespace)); err != nil {
		return fmt.Errorf("listing the InstallPlans of namespace %s: %w", plan.Namespace, err)
	}

	surplus := obsolete(plans.Items)
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

// begin returns a plan its first phase, if who made it has not.
func (r *reconciler) begin(_ context.Context, plan *v1alpha1.InstallPlan) error {
	switch {
	case plan.Status.Phase != v1alpha1.InstallPlanPhaseNone && plan.Status.Phase != v1alpha1.InstallPlanPhasePlanning:
	case plan.Spec.Approved:
		plan.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
	default:
		plan.Status.Phase = v1alpha1.InstallPlanPhaseRequiresApproval
	}

	return nil
}

// check finds out with whose rights the plan is executed. That is on record before anything is done.
func (r *reconciler) check(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	var groups operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &groups, client.InNamespace(plan.Namespace)); err != nil {
		return fmt.Errorf("listing the OperatorGroups of namespace %s: %w", plan.Namespace, err)
	}

	account, err := accountOf(groups.Items)
	if err != nil {
		plan.Status.Message = err.Error()
		setInstalled(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonInstallCheckFailed, err.Error(), r.clock.Now())
		// A changed OperatorGroup wakes the plan.
		return reconcile.Wait(v1alpha1.InstallPlanReasonInstallCheckFailed, 0, fmt.Errorf("attenuated service account query failed - %w", err))
	}

	if c := condition(plan); c != nil && c.Reason == v1alpha1.InstallPlanReasonInstallCheckFailed {
		setInstalled(plan, c.Status, v1alpha1.InstallPlanReasonUnknown, "", r.clock.Now())
		plan.Status.Message = ""
	}
	if !sameAccount(plan.Status.AttenuatedServiceAccountRef, account) {
		plan.Status.AttenuatedServiceAccountRef = account
		return reconcile.ErrDone // the changed status wakes the plan
	}

	return nil
}

func (r *reconciler) approve(_ context.Context, plan *v1alpha1.InstallPlan) error {
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		return nil
	}
	if !plan.Spec.Approved {
		return reconcile.ErrDone
	}

	plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseInstalling, ""
	return nil
}

func (r *reconciler) execute(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		return nil
	}

	now := r.clock.Now()
	if plan.Status.StartTime == nil {
		at := metav1.NewTime(now.Truncate(time.Second))
		plan.Status.StartTime = &at
	}

	err := r.run.steps(ctx, plan)
	now = r.clock.Now()
	late := isLate(plan, now, r.timeout)
	switch {
	case err == nil && isWaiting(plan):
		return reconcile.Wait("", lookAgain, fmt.Errorf("waiting for the APIs of definitions"))
	case err == nil:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseComplete, ""
		setInstalled(plan, corev1.ConditionTrue, "", "", now)
		return nil
	case goesOn(plan, err, now, r.timeout):
		plan.Status.Message = fmt.Sprintf("retrying execution due to error: %s", err)
		if !late {
			return reconcile.Wait(v1alpha1.InstallPlanReasonComponentFailed, tryAgain, err)
		}
		// Rights lack, and for long: a person should know, though it goes on.
		setInstalled(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Retry(v1alpha1.InstallPlanReasonComponentFailed, err)
	default:
		plan.Status.Phase, plan.Status.Message = v1alpha1.InstallPlanPhaseFailed, err.Error()
		setInstalled(plan, corev1.ConditionFalse, v1alpha1.InstallPlanReasonComponentFailed, err.Error(), now)
		return reconcile.Stop(v1alpha1.InstallPlanReasonComponentFailed, err)
	}
}
