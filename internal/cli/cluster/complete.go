package cluster

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
)

// listFromClusterVersion returns a lister of the names that a function finds in the ClusterVersion.
func listFromClusterVersion(extract func(*configv1.ClusterVersion) []string) kube.NameLister {
	return func(ctx context.Context, c client.Client) ([]string, error) {
		cv, err := clusterupdate.Read(ctx, c)
		if err != nil {
			return nil, err
		}
		return extract(cv), nil
	}
}

var (
	listRecommendedVersions = listFromClusterVersion(func(cv *configv1.ClusterVersion) []string {
		var found []string
		for _, release := range clusterupdate.Recommended(cv) {
			found = append(found, release.Version)
		}
		return found
	})
	listAllVersions = listFromClusterVersion(func(cv *configv1.ClusterVersion) []string {
		var found []string
		for _, option := range clusterupdate.Options(cv, nil) {
			found = append(found, option.Release.Version)
		}
		return found
	})
	listIssueNames = listFromClusterVersion(func(cv *configv1.ClusterVersion) []string {
		found := []string{clusterupdate.IssueFailing}
		for _, option := range clusterupdate.Options(cv, nil) {
			found = append(found, option.Issues...)
		}
		slices.Sort(found)
		return slices.Compact(found)
	})
	listChannels = listFromClusterVersion(func(cv *configv1.ClusterVersion) []string {
		return slices.Sorted(slices.Values(cv.Status.Desired.Channels))
	})
	listRiskNames = listFromClusterVersion(func(cv *configv1.ClusterVersion) []string {
		found := clusterupdate.AcceptedRisks(cv)
		for i, name := range found {
			found[i] = name + "-" // an accepted risk can be removed
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

// completeUpdateVersion completes --to with the versions that the other flags allow.
func completeUpdateVersion(session *kube.Session, notRecommended *bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		versions := listRecommendedVersions
		if *notRecommended {
			versions = listAllVersions
		}
		found, directive := session.CompleteFlagValue(versions)(cmd, args, toComplete)
		return found, directive | cobra.ShellCompDirectiveKeepOrder // the highest first
	}
}

// completeLastListItem completes the last name of a comma-separated list.
func completeLastListItem(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		before := toComplete[:strings.LastIndex(toComplete, ",")+1]
		found, directive := complete(cmd, args, strings.TrimPrefix(toComplete, before))
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive
	}
}
