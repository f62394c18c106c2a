package subscription

import (
	"slices"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// unit is a group of bundles that one InstallPlan installs.
type unit struct {
	choices []resolution.Choice
	// owners are the Subscriptions to the bundles.
	owners        []*v1alpha1.Subscription
	needsApproval bool
}

// approvalPolicy returns the approval of the unit.
func (u *unit) approvalPolicy() v1alpha1.Approval {
	if u.needsApproval {
		return v1alpha1.ApprovalManual
	}
	return v1alpha1.ApprovalAutomatic
}

// bundleNames returns the names of the bundles, sorted.
func (u *unit) bundleNames() []string {
	var names []string
	for i := range u.choices {
		names = append(names, u.choices[i].Name)
	}
	slices.Sort(names)
	return names
}

// work is what a resolution leads to.
type work struct {
	// units are the groups of bundles that have no InstallPlan yet.
	units []unit
	// superseded are the InstallPlans that wait for approval and are not what would be installed now.
	superseded []*v1alpha1.InstallPlan
	// waiting are the Subscriptions to bundles that wait for other bundles.
	waiting []*v1alpha1.Subscription
}

// changesPlans reports whether InstallPlans are created or deleted.
func (w *work) changesPlans() bool { return len(w.units) > 0 || len(w.superseded) > 0 }

// workPlanner decides what a resolution leads to.
type workPlanner struct {
	*view
	choices []resolution.Choice
	// failures are the reasons why Subscriptions could not be resolved, by their names.
	failures map[string]error
	// updating are the names of the ClusterServiceVersions that are replacing others.
	updating []string
	onePlan  bool
}

// decideWork returns what a resolution leads to. Bundles wait while something that they need is being installed.
// Of the others, those that need each other are a unit. With onePlan set, all bundles of the namespace are one unit.
func decideWork(v *view, o *resolution.Outcome, onePlan bool) work {
	p := &workPlanner{
		view: v, choices: o.Choices, failures: o.Failures, onePlan: onePlan,
		updating: resolution.UpdatesInProgress(v.csvs, v.isInstalling()),
	}
	waiting := resolution.Dependents(p.choices, p.isBeingInstalled)
	var units []unit
	if onePlan {
		if len(waiting) == 0 && len(p.updating) == 0 && len(p.choices) > 0 {
			units = append(units, unit{choices: p.choices, owners: v.subs, needsApproval: slices.ContainsFunc(v.subs, requiresApproval)})
		}
	} else {
		units = p.splitUnits(waiting)
	}

	w := p.matchPlans(units, waiting)
	w.waiting = p.listWaiting(waiting)
	return w
}

// listWaiting returns the Subscriptions to bundles that wait for others, and are not being installed themselves.
func (p *workPlanner) listWaiting(waiting map[string]bool) []*v1alpha1.Subscription {
	var subs []*v1alpha1.Subscription
	for i := range p.choices {
		if c := &p.choices[i]; waiting[c.Name] && !p.isBeingInstalled(c) {
			subs = append(subs, p.listSubscribers(c)...)
		}
	}
	return subs
}

func requiresApproval(sub *v1alpha1.Subscription) bool {
	return sub.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
}

// listSubscribers returns the Subscriptions to a bundle.
func (p *workPlanner) listSubscribers(c *resolution.Choice) []*v1alpha1.Subscription {
	var subs []*v1alpha1.Subscription
	for _, sub := range p.subs {
		if subscribesTo(sub, c) {
			subs = append(subs, sub)
		}
	}
	return subs
}

// isBeingInstalled reports whether a bundle, or another version of it, is being installed or waits to be installed again.
func (p *workPlanner) isBeingInstalled(c *resolution.Choice) bool {
	isInPlan := slices.ContainsFunc(p.plans, func(plan v1alpha1.InstallPlan) bool {
		return (isExecuting(&plan) || p.awaitsStepsOf(&plan)) && slices.Contains(plan.Spec.ClusterServiceVersionNames, c.Name)
	})
	return isInPlan || slices.ContainsFunc(p.listSubscribers(c), func(sub *v1alpha1.Subscription) bool {
		f := p.related[sub.Name]
		switch {
		case f.isCSVDeleted, f.awaitsSteps > 0, slices.Contains(p.updating, sub.Status.CurrentCSV), slices.Contains(p.updating, sub.Status.InstalledCSV):
			return true
		case f.plan == nil:
			return false
		}
		// A failed InstallPlan for the same version is retried.
		return isExecuting(f.plan) || f.plan.Status.Phase == v1alpha1.InstallPlanPhaseFailed && sub.Status.CurrentCSV == c.Name
	})
}

// awaitsStepsOf reports whether a Subscription awaits the steps of a new InstallPlan.
func (v *view) awaitsStepsOf(plan *v1alpha1.InstallPlan) bool {
	return slices.ContainsFunc(v.subs, func(sub *v1alpha1.Subscription) bool {
		return v.related[sub.Name].awaitsSteps > 0 && refersTo(sub, plan)
	})
}

// isExecuting reports whether an InstallPlan is executed or about to be executed.
func isExecuting(plan *v1alpha1.InstallPlan) bool {
	switch plan.Status.Phase {
	case v1alpha1.InstallPlanPhaseComplete, v1alpha1.InstallPlanPhaseFailed:
		return false
	}
	return !isPlanUnfinished(plan) && !isAwaitingApproval(plan) && plan.DeletionTimestamp.IsZero()
}

// isAwaitingApproval reports whether an InstallPlan waits for approval.
func isAwaitingApproval(plan *v1alpha1.InstallPlan) bool {
	return plan.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval && !plan.Spec.Approved && !isPlanUnfinished(plan)
}

// splitUnits returns the units of the bundles that do not wait. Bundles need approval if a Subscription to them or to
// something that they need requires it, and so do dependencies of these alone. A bundle that needs approval waits for
// what it needs and does not need approval. It is added to waiting.
func (p *workPlanner) splitUnits(waiting map[string]bool) []unit {
	open := dropChoices(p.choices, waiting)
	manual := resolution.Dependents(open, func(c *resolution.Choice) bool {
		return slices.ContainsFunc(p.listSubscribers(c), requiresApproval)
	})
	automatic := resolution.Requirements(open, func(c *resolution.Choice) bool {
		return !manual[c.Name] && (len(p.listSubscribers(c)) > 0 || !isNeeded(c, open))
	})

	for name := range resolution.Dependents(open, func(c *resolution.Choice) bool { return automatic[c.Name] }) {
		if !automatic[name] {
			waiting[name] = true
		}
	}

	var units []unit
	for _, choices := range resolution.Units(keepChoices(open, automatic)) {
		units = append(units, p.newUnit(choices, false))
	}
	for _, choices := range resolution.Units(dropChoices(dropChoices(open, automatic), waiting)) {
		units = append(units, p.newUnit(choices, true))
	}
	return units
}

func isNeeded(c *resolution.Choice, choices []resolution.Choice) bool {
	return slices.ContainsFunc(choices, func(o resolution.Choice) bool { return slices.Contains(o.Needs, c.Name) })
}

func keepChoices(choices []resolution.Choice, names map[string]bool) []resolution.Choice {
	return slices.DeleteFunc(slices.Clone(choices), func(c resolution.Choice) bool { return !names[c.Name] })
}

func dropChoices(choices []resolution.Choice, names map[string]bool) []resolution.Choice {
	return slices.DeleteFunc(slices.Clone(choices), func(c resolution.Choice) bool { return names[c.Name] })
}

func (p *workPlanner) newUnit(choices []resolution.Choice, needsApproval bool) unit {
	u := unit{choices: choices, needsApproval: needsApproval}
	for _, sub := range p.subs {
		if slices.ContainsFunc(choices, func(c resolution.Choice) bool { return subscribesTo(sub, &c) }) {
			u.owners = append(u.owners, sub)
		}
	}
	return u
}

// matchPlans removes the units for which an InstallPlan waits for approval. Any other InstallPlan that waits for approval
// is superseded, unless its Subscriptions could not be resolved or wait. The units of its Subscriptions follow when it
// is deleted.
func (p *workPlanner) matchPlans(units []unit, waiting map[string]bool) work {
	var w work
	for i := range p.plans {
		plan := &p.plans[i]
		if !isAwaitingApproval(plan) || !plan.DeletionTimestamp.IsZero() {
			continue
		}

		at := slices.IndexFunc(units, func(u unit) bool { return p.isPlanOf(plan, &u) })
		switch {
		case at >= 0:
			units = slices.Delete(units, at, at+1)
		case p.isSuperseded(plan, waiting):
			w.superseded = append(w.superseded, plan)
			units = slices.DeleteFunc(units, func(u unit) bool {
				return slices.ContainsFunc(u.owners, func(sub *v1alpha1.Subscription) bool { return refersTo(sub, plan) })
			})
		}
	}

	w.units = units
	return w
}

// refersTo reports whether an InstallPlan is that of a Subscription.
func refersTo(sub *v1alpha1.Subscription, plan *v1alpha1.InstallPlan) bool {
	return sub.Status.InstallPlanRef != nil && sub.Status.InstallPlanRef.Name == plan.Name
}

// isPlanOf reports whether an InstallPlan is the one of a unit: it has the same bundles, and all Subscriptions to them
// refer to it.
func (p *workPlanner) isPlanOf(plan *v1alpha1.InstallPlan, u *unit) bool {
	names := slices.Clone(plan.Spec.ClusterServiceVersionNames)
	slices.Sort(names)
	return u.needsApproval && slices.Equal(names, u.bundleNames()) && !slices.ContainsFunc(u.choices, func(c resolution.Choice) bool {
		return slices.ContainsFunc(p.listSubscribers(&c), func(sub *v1alpha1.Subscription) bool { return !refersTo(sub, plan) || sub.Status.CurrentCSV != c.Name })
	})
}

func (p *workPlanner) isSuperseded(plan *v1alpha1.InstallPlan, waiting map[string]bool) bool {
	isWaiting := slices.ContainsFunc(plan.Spec.ClusterServiceVersionNames, func(name string) bool { return waiting[name] })
	return !isWaiting && !slices.ContainsFunc(p.subs, func(sub *v1alpha1.Subscription) bool {
		return refersTo(sub, plan) && (p.failures[sub.Name] != nil || slices.ContainsFunc(p.choices, func(c resolution.Choice) bool {
			return waiting[c.Name] && subscribesTo(sub, &c)
		}))
	})
}
