package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// ensureInstallPlan creates the InstallPlan of a proposal once all of its bundles are unpacked. Until then it
// reports the progress in the statuses.
func (r *reconciler) ensureInstallPlan(ctx context.Context, d *decision, p *proposal) error {
	v := d.view
	// The decision is based on the cache. It is carried out only if the API server has the same state.
	latest, err := r.views.readView(ctx, r.views.live, v.namespace)
	if err != nil {
		return err
	}
	if !v.isUnchanged(latest) {
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "subscriptions"}, v.namespace, errors.New("the cache is outdated"))
	}

	g, err := r.contents.gatherPlanContent(ctx, v, p)
	var invalid *steps.InvalidError
	if errors.As(err, &invalid) {
		for _, sub := range v.subs {
			removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking)
			setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.ErrorPreventedUnpacking, err.Error())
		}
		return r.patchStatuses(ctx, v) // The bundle stays invalid until something changes.
	}

	if err != nil {
		return errors.Join(err, r.patchStatuses(ctx, v))
	}
	if !g.done {
		d.requeueWithin(g.retryAfter)
		return r.recordUnpacking(ctx, v, g)
	}

	if err := r.createInstallPlan(ctx, v, p, g); err != nil {
		for i, sub := range v.subs {
			v.before[i].Status.DeepCopyInto(&sub.Status)
			setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.EnsureInstallPlanFailed, fmt.Sprintf("error ensuring InstallPlan: %v", err))
		}
		return errors.Join(err, r.patchStatuses(ctx, v))
	}

	return nil
}

// planContent is the content of an InstallPlan, as far as its bundles are unpacked.
type planContent struct {
	steps   []*v1alpha1.Step
	lookups []v1alpha1.BundleLookup
	done    bool
	// retryAfter is the time until the next check while done is false.
	retryAfter time.Duration
}

// planContentReader reads the content of bundles from catalogs and images.
type planContentReader struct{ Options }

// gatherPlanContent returns the steps of all bundles. The steps of a bundle whose manifests are in the catalog are
// available at once. Other bundles are unpacked from their images first.
func (r *planContentReader) gatherPlanContent(ctx context.Context, v *view, p *proposal) (*planContent, error) {
	g := &planContent{done: true}
	limits := unpack.LimitsOf(&v.groups[0], r.UnpackTimeout)
	for i := range p.bundles {
		c := &p.bundles[i]
		text, err := marshalProperties(c)
		if err != nil {
			return nil, err
		}

		if c.Image == "" {
			inline, err := r.newInlineSteps(ctx, v, c, text)
			if err != nil {
				return nil, err
			}
			g.steps = append(g.steps, inline...)
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
			if g.retryAfter == 0 || result.RequeueAfter < g.retryAfter {
				g.retryAfter = result.RequeueAfter
			}
		}
	}

	g.steps = append(g.steps, p.subscriptions...)
	steps.Sort(g.steps)
	return g, nil
}

// newInlineSteps returns the steps of a bundle whose manifests are in the catalog.
func (r *planContentReader) newInlineSteps(ctx context.Context, v *view, c *resolution.Choice, properties string) ([]*v1alpha1.Step, error) {
	csv, objects, err := r.Snapshots.Manifests(ctx, c.Entry)
	if err != nil {
		return nil, err
	}

	b, err := steps.Decode(csv, objects)
	if err != nil {
		return nil, err
	}

	b.Replaces, b.Properties = c.Replaces, properties
	return steps.FromBundle(b, newStepPlace(c, v.namespace))
}

// recordUnpacking reports in the statuses that bundles are being unpacked or could not be unpacked.
func (r *reconciler) recordUnpacking(ctx context.Context, v *view, g *planContent) error {
	now, failure := r.now(), r.Unpacker.Failure(g.lookups)
	for _, sub := range v.subs {
		removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed)
		if failure == "" {
			removeConditions(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed)
			setConditionTrue(&sub.Status, now, v1alpha1.SubscriptionBundleUnpacking, v1alpha1.UnpackingInProgress, unpack.Progress(g.lookups))
			continue
		}

		message := addPullFailure(&sub.Status, failure, g.lookups)
		removeConditions(&sub.Status, v1alpha1.SubscriptionBundleUnpacking)
		setConditionTrue(&sub.Status, now, v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.ReasonBundleUnpackFailed, message)
	}

	return r.patchStatuses(ctx, v)
}

// addPullFailure adds to the message of a failed unpack why its image could not be pulled. The pods are gone when a Job
// fails at its deadline, but the status of the Subscription still has what they reported.
func addPullFailure(status *v1alpha1.SubscriptionStatus, failure string, lookups []v1alpha1.BundleLookup) string {
	if failed := findCondition(status, v1alpha1.SubscriptionBundleUnpackFailed); failed != nil && strings.HasPrefix(failed.Message, failure) {
		return failed.Message
	}
	progress := findCondition(status, v1alpha1.SubscriptionBundleUnpacking)
	if progress == nil || progress.Message == "" {
		return failure
	}

	for i := range lookups {
		if unpack.Condition(&lookups[i], v1alpha1.BundleLookupFailed) != nil {
			return joinSentences(failure, fmt.Sprintf("Image %s could not be pulled: %s", lookups[i].Path, progress.Message))
		}
	}
	return failure
}

// createInstallPlan creates the InstallPlan in three writes. It creates the plan without steps, so that nothing
// executes it. Then it sets the reference in the Subscriptions' statuses, and then the steps. An instance that takes
// over in between finds a plan without steps and starts over.
func (r *reconciler) createInstallPlan(ctx context.Context, v *view, p *proposal, g *planContent) error {
	for i := range v.plans {
		if plan := &v.plans[i]; isPlanUnfinished(plan) && plan.DeletionTimestamp.IsZero() {
			if err := r.deleteUnfinishedPlan(ctx, plan); err != nil {
				return err
			}
		}
	}

	plan := newInstallPlan(v.namespace, v.subs, v.plans, g.steps)
	if err := r.client.Create(ctx, plan); err != nil {
		return fmt.Errorf("creating an InstallPlan in namespace %s: %w", v.namespace, err)
	}

	v.clearFailures()
	for _, sub := range v.subs {
		csv, ok := p.newCSVs[sub.Name]
		if !ok {
			continue
		}

		setInstallPlanRef(&sub.Status, plan)
		sub.Status.CurrentCSV, sub.Status.State = csv, v1alpha1.SubscriptionStateUpgradePending
		recordInstallPlan(&sub.Status, plan, r.now())
	}

	if err := r.patchStatuses(ctx, v); err != nil {
		return err
	}

	return r.addPlanSteps(ctx, plan, g)
}

// addPlanSteps sets the steps in the status of an InstallPlan that was just created. A user may approve it at the same
// time.
func (r *reconciler) addPlanSteps(ctx context.Context, plan *v1alpha1.InstallPlan, g *planContent) error {
	return reconcile.RetryStale(func() error {
		before := plan.DeepCopy()
		after := plan.DeepCopy()
		after.Status = newInstallPlanStatus(plan, g.steps, slices.Clone(g.lookups))
		err := reconcile.PatchStatus(ctx, r.client, after, before)
		if reconcile.IsStale(err) {
			if err := r.views.live.Get(ctx, client.ObjectKeyFromObject(plan), plan); err != nil {
				return fmt.Errorf("reading InstallPlan %s/%s again: %w", plan.Namespace, plan.Name, err)
			}
		}
		return err
	})
}

// deleteUnfinishedPlan deletes an InstallPlan that an earlier instance did not finish.
func (r *reconciler) deleteUnfinishedPlan(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	err := r.client.Delete(ctx, plan, client.Preconditions{UID: &plan.UID, ResourceVersion: &plan.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting InstallPlan %s/%s, which was not finished: %w", plan.Namespace, plan.Name, err)
	}
	return nil
}
