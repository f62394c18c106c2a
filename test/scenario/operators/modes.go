package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/test/scenario/classic"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// checkPackage installs every bundle of a package in every install mode that it supports.
func checkPackage(ctx context.Context, site *classic.Site, table *trial.Table, p *classic.Package) {
	for _, b := range p.Bundles {
		for _, mode := range b.InstallModes {
			if ctx.Err() != nil {
				return
			}

			began := time.Now()
			o, reason := checkInstallMode(ctx, site, p, b, mode)
			table.PrintLine(p.Name, b.Version.Original()+" "+string(mode), o, time.Since(began), reason)
		}
	}
}

// checkInstallMode installs a bundle, moves it to OLM v1, and removes it.
func checkInstallMode(ctx context.Context, site *classic.Site, p *classic.Package, b *classic.Bundle, mode v1alpha1.InstallModeType) (trial.Outcome, string) {
	channel := p.ChannelOf(b.Name)
	if channel == nil {
		return trial.Unexpected, "no channel has the bundle"
	}

	scope := strings.TrimSuffix(strings.TrimSuffix(string(mode), "s"), "Namespace")
	namespace := strings.ToLower(strings.NewReplacer(".", "-", "+", "-").Replace(p.Name + "-" + b.Version.Original() + "-" + scope))
	operator, err := site.Subscribe(ctx, classic.Request{
		Package: p, Channel: channel.Name, StartingCSV: b.Name, Approval: v1alpha1.ApprovalManual,
		Namespace: namespace, WatchNamespaces: classic.WatchNamespaces(mode, namespace),
	})
	if err != nil {
		return trial.Unexpected, err.Error()
	}

	o, reason := installOperator(ctx, operator, b)
	if o == trial.Installed {
		o, reason = migrateOperator(ctx, site, operator, b)
	}
	if err := operator.Remove(ctx); err != nil {
		return trial.Unexpected, fmt.Sprintf("%s: %s; its removal failed: %v", o, reason, err)
	}
	return o, reason
}

// installOperator approves the InstallPlan of a bundle, and waits for its result.
func installOperator(ctx context.Context, operator *classic.Operator, b *classic.Bundle) (trial.Outcome, string) {
	planned, o, reason := operator.WaitForPlan(ctx)
	switch {
	case o != "":
		return o, reason
	case planned != b.Name:
		return trial.Unexpected, "the InstallPlan installs " + planned
	}
	if err := operator.Approve(ctx); err != nil {
		return trial.Unexpected, err.Error()
	}

	o, reason = operator.WaitForOutcome(ctx, b.Name)
	if o != trial.Installed {
		return o, reason
	}
	if _, err := operator.CheckDependencies(ctx, b.Name); err != nil {
		return trial.Unexpected, err.Error()
	}
	return o, reason
}
