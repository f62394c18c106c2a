package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// bring makes the plan of a proposal, once all of its bundles are there.
func (r *reconciler) bring(ctx context.Context, v *view, p *proposal) (ctrl.Result, error) {
	// What was decided on what caches hold is done only if it is so.
	latest, err := r.look(ctx, r.reader, v.namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !v.isAsSeen(latest) {
		return ctrl.Result{RequeueAfter: behind}, nil
	}

	g, err := r.gather(ctx, v, p)
	var invalid *steps.InvalidError
	if errors.As(err, &invalid) {
		for _, sub := range v.subs {
			unset(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking)
			raise(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.ErrorPreventedUnpacking, err.Error())
		}
		return ctrl.Result{}, r.write(ctx, v) // The bundle is no use until something changes.
	}

	if err != nil {
		return ctrl.Result{}, errors.Join(err, r.write(ctx, v))
	}
	if !g.done {
		return ctrl.Result{RequeueAfter: g.again}, r.await(ctx, v, g)
	}

	if err := r.install(ctx, v, p, g); err != nil {
		for i, sub := range v.subs {
			v.before[i].Status.DeepCopyInto(&sub.Status)
			raise(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.EnsureInstallPlanFailed, fmt.Sprintf("error ensuring InstallPlan: %v", err))
		}
		return ctrl.Result{}, errors.Join(err, r.write(ctx, v))
	}

	return ctrl.Result{}, nil
}

// gathered is what a plan is made of, as far as it is there.
type gathered struct {
	steps   []*v1alpha1.Step
	lookups []v1alpha1.BundleLookup
	done    bool
	// again is when to look again while it is not.
	again time.Duration
}

// gather gets the steps of all bundles. Those of one whose manifests the catalog has are made at once, others once
// the bundle came out of its image.
func (r *reconciler) gather(ctx context.Context, v *view, p *proposal) (*gathered, error) {
	g := &gathered{done: true}
	limits := unpack.LimitsOf(&v.groups[0], r.UnpackTimeout)
	for i := range p.bundles {
		c := &p.bundles[i]
		text, err := properties(c)
		if err != nil {
			return nil, err
		}

		if c.Image == "" {
			made, err := r.inline(ctx, v, c, text)
			if err != nil {
				return nil, err
			}
			g.steps = append(g.steps, made...)
			continue
		}

		catalog := c.Catalog()
		ref := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Namespace: catalog.Namespace, Name: catalog.Name}
		lookup := unpack.Lookup(c.Image, c.Name, c.Replaces, text, ref, r.Clock.Now())
		result, err := r.Unpacker.Unpack(ctx, v.namespace, lookup, limits)
		if err != nil {
			return nil, err
		}

		g.lookups, g.steps = append(g.lookups, result.Lookup), append(g.steps, result.Steps...)
		if !result.Done {
			g.done = false
			if g.again == 0 || result.Again < g.again {
				g.again = result.Again
			}
		}
	}

	g.steps = append(g.steps, p.subscriptions...)
	steps.Sort(g.steps)
	return g, nil
}

// inline makes the steps of a bundle whose manifests the catalog has.
func (r *reconciler) inline(ctx context.Context, v *view, c *resolution.Choice, properties string) ([]*v1alpha1.Step, error) {
	csv, objects, err := r.Snapshots.Manifests(ctx, c.Entry)
	if err != nil {
		return nil, err
	}

	b, err := steps.Decode(csv, objects)
	if err != nil {
		return nil, err
	}

	b.Replaces, b.Properties = c.Replaces, properties
	return steps.FromBundle(b, place(c, v.namespace))
}

// await says in the statuses that bundles are not there yet, or cannot be had.
func (r *reconciler) await(ctx context.Context, v *view, g *gathered) error {
	now, failure := r.now(), r.Unpacker.Failure(g.lookups)
	for _, sub := range v.subs {
		unset(&sub.Status, v1alpha1.SubscriptionResolutionFailed)
		if failure == "" {
			unset(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed)
			raise(&sub.Status, now, v1alpha1.SubscriptionBundleUnpacking, v1alpha1.UnpackingInProgress, unpack.Progress(g.lookups))
			continue
		}

		unset(&sub.Status, v1alpha1.SubscriptionBundleUnpacking)
		if c := find(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed); c == nil || c.Message != failure {
			about := &corev1.ObjectReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind, Namespace: sub.Namespace, Name: sub.Name, UID: sub.UID,
			}
			r.warn(about, v1alpha1.ReasonBundleUnpackFailed, failure)
		}

		raise(&sub.Status, now, v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.ReasonBundleUnpackFailed, failure)
	}

	return r.write(ctx, v)
}

// install makes the plan. First it is there without steps, so that nothing is done by it; then the Subscriptions
// know of it; then it gets its steps. A program that takes over before the end finds a plan without steps, and
// starts over.
func (r *reconciler) install(ctx context.Context, v *view, p *proposal, g *gathered) error {
	for i := range v.plans {
		if plan := &v.plans[i]; isUnfinished(plan) && plan.DeletionTimestamp.IsZero() {
			if err := r.discard(ctx, plan); err != nil {
				return err
			}
		}
	}

	plan := newPlan(v.namespace, v.subs, v.plans, g.steps)
	if err := r.client.Create(ctx, plan); err != nil {
		return fmt.Errorf("creating an InstallPlan in namespace %s: %w", v.namespace, err)
	}

	v.succeed()
	for _, sub := range v.subs {
		csv, ok := p.chosen[sub.Name]
		if !ok {
			continue
		}

		refer(&sub.Status, plan)
		sub.Status.CurrentCSV, sub.Status.State = csv, v1alpha1.SubscriptionStateUpgradePending
		notePlan(&sub.Status, plan, r.now())
	}

	if err := r.write(ctx, v); err != nil {
		return err
	}

	before := plan.DeepCopy()
	plan.Status = planStatus(plan, g.steps, slices.Clone(g.lookups))
	if err := r.client.Status().Patch(ctx, plan, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the steps of InstallPlan %s/%s: %w", plan.Namespace, plan.Name, err)
	}

	return nil
}
