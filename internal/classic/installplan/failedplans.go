package installplan

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// failedPlans retries the failed plans of a namespace when the rights of their service account may have changed. The
// name of a request is that of the namespace.
type failedPlans struct{ client client.Client }

func (r *failedPlans) newReconciler() *reconcile.KeyReconciler[[]v1alpha1.InstallPlan, []*v1alpha1.InstallPlan] {
	return &reconcile.KeyReconciler[[]v1alpha1.InstallPlan, []*v1alpha1.InstallPlan]{
		Gather: r.listPlans, Decide: selectPlansToRetry, Execute: r.retryPlans,
	}
}

func (r *failedPlans) listPlans(ctx context.Context, key types.NamespacedName) ([]v1alpha1.InstallPlan, error) {
	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.InNamespace(key.Name)); err != nil {
		return nil, fmt.Errorf("listing the InstallPlans of namespace %s: %w", key.Name, err)
	}
	return plans.Items, nil
}

// selectPlansToRetry returns the plans that a service account failed to execute.
func selectPlansToRetry(plans []v1alpha1.InstallPlan) []*v1alpha1.InstallPlan {
	var failed []*v1alpha1.InstallPlan
	for i := range plans {
		if plan := &plans[i]; plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed && plan.Status.AttenuatedServiceAccountRef != nil {
			failed = append(failed, plan)
		}
	}
	return failed
}

func (r *failedPlans) retryPlans(ctx context.Context, _ []v1alpha1.InstallPlan, failed []*v1alpha1.InstallPlan) error {
	var errs []error
	for _, plan := range failed {
		before := plan.DeepCopy()
		plan.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
		errs = append(errs, reconcile.PatchStatus(ctx, r.client, plan, before))
	}
	return errors.Join(errs...)
}
