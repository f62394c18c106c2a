package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
)

// clusterNames makes names of what the ClusterVersion tells.
func clusterNames(of func(*configv1.ClusterVersion) []string) names {
	return func(ctx context.Context, c client.Client) ([]string, error) {
		cv, err := clusterupdate.Read(ctx, c)
		if err != nil {
			return nil, err
		}
		return of(cv), nil
	}
}

var (
	recommendedUpdates = clusterNames(func(cv *configv1.ClusterVersion) []string {
		var found []string
		for _, release := range clusterupdate.Recommended(cv) {
			found = append(found, release.Version)
		}
		return found
	})
	everyUpdate = clusterNames(func(cv *configv1.ClusterVersion) []string {
		var found []string
		for _, option := range clusterupdate.Options(cv, nil) {
			found = append(found, option.Release.Version)
		}
		return found
	})
	knownIssues = clusterNames(func(cv *configv1.ClusterVersion) []string {
		found := []string{clusterupdate.IssueFailing}
		for _, option := range clusterupdate.Options(cv, nil) {
			found = append(found, option.Issues...)
		}
		slices.Sort(found)
		return slices.Compact(found)
	})
	knownChannels = clusterNames(func(cv *configv1.ClusterVersion) []string {
		return slices.Sorted(slices.Values(cv.Status.Desired.Channels))
	})
	knownRisks = clusterNames(func(cv *configv1.ClusterVersion) []string {
		found := clusterupdate.AcceptedRisks(cv)
		for i, name := range found {
			found[i] = name + "-" // what is accepted can be taken back
		}
		for _, update := range cv.Status.ConditionalUpdates {
			for _, risk := range update.Risks {
				if !slices.Contains(found, risk.Name+"-") {
					found = append(found, risk.Name)
				}
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	})
)

// completeTo completes --to by the versions that it takes as the other flags stand.
func (a *app) completeTo(notRecommended *bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		versions := recommendedUpdates
		if *notRecommended {
			versions = everyUpdate
		}
		found, directive := a.completeFlag(versions)(cmd, args, toComplete)
		return found, directive | cobra.ShellCompDirectiveKeepOrder // the highest first
	}
}

// lastOf completes the last name of a list.
func lastOf(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		before := toComplete[:strings.LastIndex(toComplete, ",")+1]
		found, directive := complete(cmd, args, strings.TrimPrefix(toComplete, before))
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive
	}
}
