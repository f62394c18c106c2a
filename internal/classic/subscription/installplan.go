package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// installer ensures the InstallPlans of a namespace.
type installer struct {
	*reconciler

	decision *decision
	// reported are the names of the Subscriptions whose conditions are set.
	reported map[string]bool
}

// ensureInstallPlans deletes superseded InstallPlans, and creates an InstallPlan for each unit whose bundles are
// unpacked. A unit that fails does not prevent the others. A Subscription that waits for another one keeps the condition
// that its bundle could not be unpacked.
func (r *installer) ensureInstallPlans(ctx context.Context, w work) error {
	v := r.decision.view
	errs := []error{r.deleteReplacedPlans(ctx, w)}
	if errs[0] == nil {
		errs = append(errs, r.ensureUnits(ctx, w.units))
	}

	for _, sub := range v.subs {
		if r.reported[sub.Name] {
			continue
		}
		removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking)
		if !slices.Contains(w.waiting, sub) { // A bundle that waits is not unpacked meanwhile.
			removeConditions(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed)
		}
		v.restoreCurrentCSV(sub)
	}
	return errors.Join(append(errs, r.patchStatuses(ctx, v, v.subs))...)
}

// restoreCurrentCSV sets the state of a Subscription that has nothing new to install after its InstallPlan was deleted.
func (v *view) restoreCurrentCSV(sub *v1alpha1.Subscription) {
	if s := &sub.Status; s.CurrentCSV == "" && s.InstalledCSV != "" && v.hasCSV(s.InstalledCSV) {
		s.CurrentCSV, s.State = s.InstalledCSV, v1alpha1.SubscriptionStateAtLatest
	}
}

// deleteReplacedPlans deletes InstallPlans that are superseded, or that an earlier instance did not finish.
func (r *installer) deleteReplacedPlans(ctx context.Context, w work) error {
	if !w.changesPlans() {
		return nil
	}

	v := r.decision.view
	for _, plan := range w.superseded {
		if err := r.deletePlan(ctx, plan, "which is superseded"); err != nil {
			return err
		}
	}
	for i := range v.plans {
		if plan := &v.plans[i]; isPlanUnfinished(plan) && plan.DeletionTimestamp.IsZero() {
			if err := r.deletePlan(ctx, plan, "which was not finished"); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensureUnits creates the InstallPlans of units in three rounds. The first creates the plans without steps, so that nothing
// executes them. The second sets the references in the statuses of the Subscriptions, and the third the steps. An instance
// that takes over in between finds plans without steps and starts over. All Subscriptions are planned before the first
// plan is executed, because executions keep the API server busy.
func (r *installer) ensureUnits(ctx context.Context, units []unit) error {
	var errs []error
	var created []*newPlan
	for _, u := range units {
		ready, err := r.prepareUnit(ctx, u)
		errs = append(errs, err)
		created = append(created, ready...)
	}

	for _, round := range []func(context.Context, *newPlan) error{r.createPlan, r.patchOwners, r.setPlanSteps} {
		created = slices.DeleteFunc(created, func(p *newPlan) bool {
			err := round(ctx, p)
			if err != nil {
				errs = append(errs, err)
				r.setPlanFailed(p.unit.owners, err)
			}
			return err != nil
		})
	}
	return errors.Join(errs...)
}

// setPlanFailed reports that the InstallPlan of Subscriptions could not be created.
func (r *installer) setPlanFailed(owners []*v1alpha1.Subscription, err error) {
	v := r.decision.view
	r.report(owners, func(sub *v1alpha1.Subscription) {
		i := slices.Index(v.subs, sub)
		v.before[i].Status.DeepCopyInto(&sub.Status)
		setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, v1alpha1.EnsureInstallPlanFailed, fmt.Sprintf("error ensuring InstallPlan: %v", err))
	})
}

// prepareUnit returns the InstallPlans to create for a unit once its bundles are unpacked. Until then it reports the
// progress in the statuses. If a bundle cannot be unpacked, the InstallPlan has what does not need it.
func (r *installer) prepareUnit(ctx context.Context, u unit) ([]*newPlan, error) {
	v := r.decision.view
	p, err := newProposal(v, &u)
	if err != nil || !p.hasChanges() {
		return nil, err
	}

	contents, err := r.contents.gatherContents(ctx, v, p.bundles)
	if err != nil {
		return nil, err
	}

	var errs []error
	var plans []*newPlan
	for _, part := range r.recordUnpacking(u, contents) {
		plan, err := newPlanOf(v, part, contents)
		switch {
		case err != nil:
			errs = append(errs, err)
			r.setPlanFailed(part.owners, err)
		case plan != nil:
			plans = append(plans, plan)
		}
	}
	return plans, errors.Join(errs...)
}

// report sets conditions of Subscriptions.
func (r *installer) report(subs []*v1alpha1.Subscription, set func(*v1alpha1.Subscription)) {
	for _, sub := range subs {
		r.reported[sub.Name] = true
		set(sub)
	}
}

// recordUnpacking reports in the statuses of a unit that bundles are being unpacked or could not be unpacked. It returns
// the parts of the unit that can be installed: all or nothing, unless a bundle could not be unpacked.
func (r *installer) recordUnpacking(u unit, contents map[string]*bundleContent) []unit {
	planner := &workPlanner{view: r.decision.view}
	broken := ""
	for i := range u.choices {
		if c := contents[u.choices[i].Name]; c != nil {
			if c.requeueAfter > 0 {
				r.decision.requeueWithin(c.requeueAfter)
			}
			if broken == "" && c.hasFailed() {
				broken = u.choices[i].Name
			}
		}
	}
	if broken == "" {
		return r.recordProgress([]unit{u}, contents)
	}

	stopped := resolution.Dependents(u.choices, func(c *resolution.Choice) bool { return contents[c.Name].hasFailed() })
	rest := dropChoices(u.choices, stopped)
	rest = keepChoices(rest, resolution.Requirements(rest, func(c *resolution.Choice) bool { return len(planner.listSubscribers(c)) > 0 }))
	if r.OnePlanPerNamespace {
		rest = nil
	}

	var parts []unit
	for _, choices := range resolution.Units(rest) {
		parts = append(parts, planner.newUnit(choices, u.needsApproval))
	}
	r.report(u.owners, func(sub *v1alpha1.Subscription) {
		if !slices.ContainsFunc(parts, func(part unit) bool { return slices.Contains(part.owners, sub) }) {
			r.setUnpackFailed(sub, contents[broken])
		}
	})
	return r.recordProgress(parts, contents)
}

// recordProgress reports the units whose bundles are being unpacked, and returns the others.
func (r *installer) recordProgress(units []unit, contents map[string]*bundleContent) []unit {
	var ready []unit
	for _, u := range units {
		isReady := true
		var lookups []v1alpha1.BundleLookup
		for i := range u.choices {
			if c := contents[u.choices[i].Name]; c != nil && c.lookup != nil {
				isReady = isReady && c.isDone
				lookups = append(lookups, *c.lookup)
			}
		}

		if isReady {
			ready = append(ready, u)
			continue
		}
		r.report(u.owners, func(sub *v1alpha1.Subscription) {
			removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpackFailed)
			setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpacking, v1alpha1.UnpackingInProgress, unpack.Progress(lookups))
		})
	}
	return ready
}

// setUnpackFailed reports a bundle that could not be unpacked.
func (r *installer) setUnpackFailed(sub *v1alpha1.Subscription, c *bundleContent) {
	var reason, message string
	if c.err != nil {
		reason, message = v1alpha1.ErrorPreventedUnpacking, c.err.Error()
	} else {
		lookups := []v1alpha1.BundleLookup{*c.lookup}
		reason, message = v1alpha1.ReasonBundleUnpackFailed, addPullFailure(&sub.Status, r.Unpacker.Failure(lookups), lookups)
	}

	removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking)
	setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionBundleUnpackFailed, reason, message)
}

// bundleContent is the content of a bundle, as far as it is unpacked.
type bundleContent struct {
	steps []*v1alpha1.Step
	// lookup is the progress of unpacking; nil for a bundle whose manifests are in the catalog.
	lookup *v1alpha1.BundleLookup
	isDone bool
	// requeueAfter is the time until the next check while isDone is false.
	requeueAfter time.Duration
	// err is set if the content is invalid. It stays invalid until something changes.
	err error
}

func (c *bundleContent) hasFailed() bool {
	return c != nil && (c.err != nil || c.lookup != nil && unpack.Condition(c.lookup, v1alpha1.BundleLookupFailed) != nil)
}

// planContentReader reads the content of bundles from catalogs and images.
type planContentReader struct{ Options }

// gatherContents returns the contents of bundles by their names. The steps of a bundle whose manifests are in the catalog
// are available at once. Other bundles are unpacked from their images first.
func (r *planContentReader) gatherContents(ctx context.Context, v *view, bundles []resolution.Choice) (map[string]*bundleContent, error) {
	contents := map[string]*bundleContent{}
	for i := range bundles {
		content, err := r.gatherContent(ctx, v, &bundles[i])
		var invalid *steps.InvalidError
		switch {
		case errors.As(err, &invalid):
			content = &bundleContent{err: err}
		case err != nil:
			return nil, err
		}
		contents[bundles[i].Name] = content
	}
	return contents, nil
}

func (r *planContentReader) gatherContent(ctx context.Context, v *view, c *resolution.Choice) (*bundleContent, error) {
	properties, err := marshalProperties(c)
	if err != nil {
		return nil, err
	}

	if c.Image == "" {
		inline, err := r.newInlineSteps(ctx, v, c, properties)
		if err != nil {
			return nil, err
		}
		return &bundleContent{steps: inline, isDone: true}, nil
	}

	catalog := c.Catalog()
	ref := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Namespace: catalog.Namespace, Name: catalog.Name}
	lookup := unpack.Lookup(c.Image, c.Name, c.Replaces, properties, ref, r.Clock.Now())
	result, err := r.Unpacker.Unpack(ctx, v.namespace, lookup, unpack.LimitsOf(&v.groups[0], r.UnpackTimeout))
	if err != nil {
		return nil, err
	}
	return &bundleContent{steps: result.Steps, lookup: &result.Lookup, isDone: result.Done, requeueAfter: result.RequeueAfter}, nil
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

// newPlan is an InstallPlan to create.
type newPlan struct {
	unit     unit
	proposal *proposal
	steps    []*v1alpha1.Step
	lookups  []v1alpha1.BundleLookup
	// created is the InstallPlan without steps, once it exists.
	created *v1alpha1.InstallPlan
}

// newPlanOf returns the InstallPlan of a unit whose bundles are unpacked, or nil if nothing has changed.
func newPlanOf(v *view, u unit, contents map[string]*bundleContent) (*newPlan, error) {
	p, err := newProposal(v, &u)
	if err != nil || !p.hasChanges() {
		return nil, err
	}

	n := &newPlan{unit: u, proposal: p, steps: p.subscriptions}
	for i := range p.bundles {
		content := contents[p.bundles[i].Name]
		n.steps = append(n.steps, content.steps...)
		if content.lookup != nil {
			n.lookups = append(n.lookups, *content.lookup)
		}
	}
	steps.Sort(n.steps)
	return n, nil
}

// createPlan creates an InstallPlan without steps, and refers to it in the statuses of its Subscriptions.
func (r *installer) createPlan(ctx context.Context, n *newPlan) error {
	v := r.decision.view
	plan := newInstallPlan(v, &n.unit, n.steps)
	planned := plan.DeepCopy()
	planned.Status = newInstallPlanStatus(plan, n.steps, n.lookups)
	if err := checkPlanSize(planned.Status, plan.Spec.ClusterServiceVersionNames); err != nil {
		return err
	}
	if err := r.client.Create(ctx, plan); err != nil {
		return fmt.Errorf("creating an InstallPlan in namespace %s: %w", v.namespace, err)
	}

	n.created, planned.ObjectMeta = plan, *plan.ObjectMeta.DeepCopy()
	r.report(n.unit.owners, func(sub *v1alpha1.Subscription) {
		removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking, v1alpha1.SubscriptionBundleUnpackFailed)
		if csv, ok := n.proposal.newCSVs[sub.Name]; ok {
			setInstallPlanRef(&sub.Status, plan)
			sub.Status.CurrentCSV, sub.Status.State = csv, v1alpha1.SubscriptionStateUpgradePending
			recordInstallPlan(&sub.Status, planned, r.now())
		}
	})
	return nil
}

// patchOwners patches the statuses of the Subscriptions of a new InstallPlan.
func (r *installer) patchOwners(ctx context.Context, n *newPlan) error {
	return r.patchStatuses(ctx, r.decision.view, n.unit.owners)
}

// setPlanSteps sets the steps of a new InstallPlan.
func (r *installer) setPlanSteps(ctx context.Context, n *newPlan) error {
	return r.addPlanSteps(ctx, n.created, n.steps, n.lookups)
}

// maxPlanBytes limits the status of an InstallPlan. etcd stores objects of up to 1.5 MiB. The rest is for the metadata and
// the spec.
const maxPlanBytes = 1_500_000

// checkPlanSize returns an error if the status of an InstallPlan is too large to be stored. It is checked before the plan is
// created: a plan whose steps cannot be written would be deleted and created again and again.
func checkPlanSize(status v1alpha1.InstallPlanStatus, csvs []string) error {
	data, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encoding the steps of an InstallPlan: %w", err)
	}
	if len(data) <= maxPlanBytes {
		return nil
	}
	return fmt.Errorf("the InstallPlan for %s would have %d bytes, more than the %d that can be stored: the catalog contains the manifests of its bundles; "+
		"it must refer to bundle images instead", strings.Join(csvs, ", "), len(data), maxPlanBytes)
}

// addPlanSteps sets the steps in the status of an InstallPlan that was just created. A user may approve it at the same
// time.
func (r *reconciler) addPlanSteps(ctx context.Context, plan *v1alpha1.InstallPlan, all []*v1alpha1.Step, lookups []v1alpha1.BundleLookup) error {
	return reconcile.RetryStale(func() error {
		before := plan.DeepCopy()
		after := plan.DeepCopy()
		after.Status = newInstallPlanStatus(plan, all, slices.Clone(lookups))
		err := reconcile.PatchStatus(ctx, r.client, after, before)
		if reconcile.IsStale(err) {
			if err := r.views.live.Get(ctx, client.ObjectKeyFromObject(plan), plan); err != nil {
				return fmt.Errorf("reading InstallPlan %s/%s again: %w", plan.Namespace, plan.Name, err)
			}
		}
		return err
	})
}

// deletePlan deletes an InstallPlan, unless it has changed. A user may approve it at the same time.
func (r *reconciler) deletePlan(ctx context.Context, plan *v1alpha1.InstallPlan, why string) error {
	err := r.client.Delete(ctx, plan, client.Preconditions{UID: &plan.UID, ResourceVersion: &plan.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting InstallPlan %s/%s, %s: %w", plan.Namespace, plan.Name, why, err)
	}
	return nil
}
