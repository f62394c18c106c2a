package installplan

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
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
	// minFailedRetryInterval and maxFailedRetryInterval limit the time between two attempts of a failed plan.
	minFailedRetryInterval = 5 * time.Second
	maxFailedRetryInterval = 5 * time.Minute
)

// reconciler executes InstallPlans.
type reconciler struct {
	client client.Client
	// live reads from the API server without the cache.
	live         client.Reader
	executor     executor
	retryTimeout time.Duration
	clock        clock.PassiveClock
	syncs        *clusteroperator.Syncs
	plans        planCounter
	crdsChanged  changeTime
	written      reconcile.WrittenVersions
}

// changeTime is the time of the last change of something. The zero value means that nothing has changed.
type changeTime struct {
	mu sync.Mutex
	at time.Time
}

func (c *changeTime) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *changeTime) get() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (r *reconciler) newReconciler() *reconcile.ObjectReconciler[*v1alpha1.InstallPlan, *facts, *decision] {
	return &reconcile.ObjectReconciler[*v1alpha1.InstallPlan, *facts, *decision]{
		Client: r.client, Live: r.live, New: func() *v1alpha1.InstallPlan { return &v1alpha1.InstallPlan{} },
		Gather: r.gatherFacts, Decide: decide, Execute: r.execute, Report: report, Observe: r.syncs.Record,
		Written: func(plan, _ *v1alpha1.InstallPlan) { r.written.Add(plan) },
		Forget: func(_ context.Context, plan types.NamespacedName) error {
			r.plans.remove(plan)
			r.written.Remove(plan)
			return nil
		},
	}
}

// gatherFacts reads the plans and the OperatorGroups of the namespace, unless the plan needs no work. For a failed plan
// it also reads the Subscriptions.
func (r *reconciler) gatherFacts(ctx context.Context, plan *v1alpha1.InstallPlan) (*facts, error) {
	f := &facts{now: r.clock.Now()}
	if isIgnored(plan) {
		return f, nil
	}
	if err := r.written.CheckOutdated(plan); err != nil {
		return f, err // All steps would be executed again.
	}

	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.InNamespace(plan.Namespace)); err != nil {
		return f, fmt.Errorf("listing the InstallPlans of namespace %s: %w", plan.Namespace, err)
	}

	var groups operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &groups, client.InNamespace(plan.Namespace)); err != nil {
		return f, fmt.Errorf("listing the OperatorGroups of namespace %s: %w", plan.Namespace, err)
	}

	f.plans, f.groups = plans.Items, groups.Items
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed {
		return f, nil
	}

	var subs v1alpha1.SubscriptionList
	if err := r.client.List(ctx, &subs, client.InNamespace(plan.Namespace)); err != nil {
		return f, fmt.Errorf("listing the Subscriptions of namespace %s: %w", plan.Namespace, err)
	}

	f.subs = subs.Items
	return f, nil
}

// execute deletes old plans of the namespace, and executes the plan as far as possible if it may be executed.
func (r *reconciler) execute(ctx context.Context, plan *v1alpha1.InstallPlan, f *facts, d *decision) error {
	r.plans.add(client.ObjectKeyFromObject(plan))
	for i := range d.surplus {
		old := &d.surplus[i]
		if err := r.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting InstallPlan %s/%s: %w", old.Namespace, old.Name, err)
		}
	}

	if d.accountErr != nil {
		// A change of the OperatorGroup triggers a reconcile.
		return reconcile.Wait(v1alpha1.InstallPlanReasonInstallCheckFailed, 0, fmt.Errorf("attenuated service account query failed - %w", d.accountErr))
	}
	if !d.executes {
		return nil
	}

	return concludeExecution(d.plan, r.executor.executeSteps(ctx, d.plan, f.groups), r.crdsChanged.get(), r.clock.Now(), r.retryTimeout)
}

// report sets the status that decision and execution have determined.
func report(plan *v1alpha1.InstallPlan, _ *facts, d *decision, _ error) []reconcile.Event {
	if d != nil {
		plan.Status = d.plan.Status
	}
	if plan.Status.CatalogSources == nil && plan.Status.Phase != v1alpha1.InstallPlanPhaseNone {
		plan.Status.CatalogSources = []string{}
	}
	return nil
}
