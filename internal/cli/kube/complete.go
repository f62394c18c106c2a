package kube

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// completionTimeout limits how long a shell completion waits for names from the cluster.
const completionTimeout = 3 * time.Second

// NameLister returns names that exist in the cluster, for completion.
type NameLister func(context.Context, client.Client) ([]string, error)

// CompleteFirstArgument completes the first argument of a command with the names that list returns.
func (s *Session) CompleteFirstArgument(list NameLister) cobra.CompletionFunc {
	complete := s.CompleteFlagValue(list)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// CompleteFlagValue completes the value of a flag with the names that list returns.
func (s *Session) CompleteFlagValue(list NameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := s.NewClient(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}

		found, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}

		return slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, toComplete) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// ListCatalogNames returns the names of the ClusterCatalogs.
func ListCatalogNames(ctx context.Context, c client.Client) ([]string, error) {
	catalogs, err := (&action.CatalogList{Client: c}).Run(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for i := range catalogs {
		names = append(names, catalogs[i].Name)
	}

	return names, nil
}

// ListNamespaceNames returns the names of the namespaces.
func ListNamespaceNames(ctx context.Context, c client.Client) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}

	return names, nil
}
