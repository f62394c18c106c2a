package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/test/scenario/classic"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// walk is the sequence of upgrades of one operator through a channel.
type walk struct {
	site    *classic.Site
	table   *trial.Table
	pkg     *classic.Package
	channel *classic.Channel
	// chain are the bundles of the channel, the oldest first.
	chain []string
}

// walkPackage walks through every channel of a package.
func walkPackage(ctx context.Context, site *classic.Site, table *trial.Table, p *classic.Package) {
	for _, channel := range p.Channels {
		w := &walk{site: site, table: table, pkg: p, channel: channel, chain: channel.Chain()}
		if len(w.chain) == 0 {
			w.printLine(time.Now(), "the channel has no head", trial.Unexpected, "")
			continue
		}

		for start := 0; start < len(w.chain) && ctx.Err() == nil; {
			start = w.walkFrom(ctx, start)
		}
	}
}

func (w *walk) printLine(began time.Time, what string, o trial.Outcome, reason string) {
	w.table.PrintLine(w.pkg.Name, w.channel.Name+": "+strings.ReplaceAll(what, w.pkg.Name+".", ""), o, time.Since(began), reason)
}

// walkFrom installs a bundle of the chain and upgrades to the head. It returns the index of the
// bundle to continue with after a refused one; the length of the chain if the head was reached.
func (w *walk) walkFrom(ctx context.Context, start int) int {
	began := time.Now()
	namespace := fmt.Sprintf("%s-%s-%d", w.pkg.Name, strings.ReplaceAll(w.channel.Name, ".", "-"), start)
	operator, err := w.site.Subscribe(ctx, classic.Request{
		Package: w.pkg, Channel: w.channel.Name, StartingCSV: w.chain[start], Approval: v1alpha1.ApprovalManual,
		Namespace: namespace, WatchNamespaces: classic.WatchNamespaces(w.chooseInstallMode(start), namespace),
	})
	if err != nil {
		w.printLine(began, w.chain[start], trial.Unexpected, err.Error())
		return len(w.chain)
	}

	next := w.upgradeToHead(ctx, operator, start)
	began = time.Now()
	if err := operator.Remove(ctx); err != nil {
		w.printLine(began, "removal", trial.Unexpected, err.Error())
	}
	return next
}

// chooseInstallMode returns AllNamespaces if a bundle of the chain supports it, otherwise another
// supported mode.
func (w *walk) chooseInstallMode(at int) v1alpha1.InstallModeType {
	modes := w.pkg.Bundle(w.chain[at]).InstallModes
	if len(modes) == 0 || slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces) {
		return v1alpha1.InstallModeTypeAllNamespaces
	}
	return modes[0]
}

// upgradeToHead installs the operator and upgrades it to the head. It returns the index to continue
// with, see walkFrom.
func (w *walk) upgradeToHead(ctx context.Context, operator *classic.Operator, start int) int {
	current, ok := w.advanceByHand(ctx, operator, "", start)
	if !ok {
		return start + 1
	}

	upgrades := len(w.chain) - 1 - start
	for current != w.chain[len(w.chain)-1] && ctx.Err() == nil {
		at := slices.Index(w.chain, current)
		if at-start >= upgrades/2 {
			return w.upgradeAutomatically(ctx, operator, current)
		}

		next, ok := w.advanceByHand(ctx, operator, current, at)
		if !ok {
			return max(at, slices.Index(w.chain, next)) + 1
		}
		current = next
	}

	return len(w.chain)
}

// advanceByHand approves the next InstallPlan by hand, and waits for its result. current is empty for the
// installation. It returns the bundle of the InstallPlan, and whether that is installed.
func (w *walk) advanceByHand(ctx context.Context, operator *classic.Operator, current string, at int) (string, bool) {
	began, what := time.Now(), w.chain[at]
	if current != "" {
		what = current + " → ?"
	}

	next, o, reason := operator.WaitForPlan(ctx)
	if o != "" {
		w.printLine(began, what, o, reason)
		return next, false
	}
	if current != "" {
		what = current + " → " + next
	}
	if problem := w.checkProposal(ctx, operator, current, next, at); problem != "" {
		w.printLine(began, what, trial.Unexpected, problem)
		return next, false
	}
	if err := operator.Approve(ctx); err != nil {
		w.printLine(began, what, trial.Unexpected, err.Error())
		return next, false
	}

	o, reason = operator.WaitForOutcome(ctx, next)
	if o == trial.Installed {
		o, reason = w.describeResult(ctx, operator, current, next)
	}
	w.printLine(began, what, o, reason)
	return next, o == trial.Installed || o == trial.Updated
}

// checkProposal returns what is wrong with an InstallPlan that waits for approval.
func (w *walk) checkProposal(ctx context.Context, operator *classic.Operator, current, next string, at int) string {
	facts, err := operator.ReadFacts(ctx)
	switch {
	case err != nil:
		return err.Error()
	case facts.FindCSV(next) != nil:
		return next + " exists before its InstallPlan was approved"
	case current == "" && next != w.chain[at]:
		return "the InstallPlan installs " + next + " instead of startingCSV"
	case current != "" && !w.pkg.HasEdge(w.channel, current, next):
		return "the channel has no edge from " + current + " to " + next
	}
	return ""
}

// describeResult returns the outcome of an approved InstallPlan that is installed, with the operators that were
// installed as its dependencies.
func (w *walk) describeResult(ctx context.Context, operator *classic.Operator, current, next string) (trial.Outcome, string) {
	others, err := operator.CheckDependencies(ctx, next)
	if err != nil {
		return trial.Unexpected, err.Error()
	}

	text := "approved by hand"
	if len(others) > 0 {
		text += "; beside " + strings.Join(others, ", ") + ", installed for it"
	}
	if current == "" {
		return trial.Installed, text
	}
	return trial.Updated, text
}

// upgradeAutomatically upgrades to the head with InstallPlans that are approved automatically. It
// returns the index to continue with, see walkFrom.
func (w *walk) upgradeAutomatically(ctx context.Context, operator *classic.Operator, from string) int {
	began, head := time.Now(), w.chain[len(w.chain)-1]
	if err := operator.SetApproval(ctx, v1alpha1.ApprovalAutomatic); err != nil {
		w.printLine(began, from, trial.Unexpected, err.Error())
		return len(w.chain)
	}

	reached, o, reason := operator.WaitForHead(ctx, head)
	what := from + " → " + reached
	if o != trial.Installed {
		w.printLine(began, what, o, reason)
		return max(slices.Index(w.chain, from), slices.Index(w.chain, reached)) + 1
	}

	o, reason = w.describePath(ctx, operator, from)
	w.printLine(began, what, o, reason)
	return len(w.chain)
}

// describePath checks the edges that automatic upgrades have followed, as far as their InstallPlans
// are kept.
func (w *walk) describePath(ctx context.Context, operator *classic.Operator, from string) (trial.Outcome, string) {
	path, err := operator.PlannedCSVs(ctx)
	if err != nil {
		return trial.Unexpected, err.Error()
	}

	path = path[max(0, slices.Index(path, from)):]
	for i := 1; i < len(path); i++ {
		if !w.pkg.HasEdge(w.channel, path[i-1], path[i]) {
			return trial.Unexpected, "the channel has no edge from " + path[i-1] + " to " + path[i]
		}
	}

	return trial.Updated, fmt.Sprintf("approved automatically, %d upgrades", len(path)-1)
}
