package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
)

// kubeFlags are the flags that select a cluster and a user.
type kubeFlags struct{ kubeconfig.Flags }

// addFlags adds the flags to a command and its subcommands.
func (k *kubeFlags) addFlags(cmd *cobra.Command) { k.AddFlags(cmd.PersistentFlags()) }

// newClient returns a client of the selected cluster. Warnings of the API server are written to w.
func (k *kubeFlags) newClient(w io.Writer) (client.Client, error) {
	config, err := k.Config()
	if err != nil {
		return nil, err
	}

	// A status reads dozens of objects one by one. The default of 5 requests a second would be
	// noticeably slow, and the server protects itself with priority and fairness.
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NewWarningWriter(w, rest.WarningWriterOptions{Deduplicate: true})
	scheme, err := action.Scheme()
	if err != nil {
		return nil, err
	}

	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, &report.Error{
			Object: "cluster " + config.Host, Err: fmt.Errorf("cannot be reached: %w", err),
			Advice: "check that the cluster is running, or select another one with --context",
		}
	}

	return c, nil
}

// completionTimeout limits how long a shell completion waits for names from the cluster.
const completionTimeout = 3 * time.Second

// nameLister returns names that exist in the cluster, for completion.
type nameLister func(context.Context, client.Client) ([]string, error)

// completeFirstArgument completes the first argument of a command with the names that list returns.
func (a *app) completeFirstArgument(list nameLister) cobra.CompletionFunc {
	complete := a.completeFlagValue(list)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// completeFlagValue completes the value of a flag with the names that list returns.
func (a *app) completeFlagValue(list nameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := a.kube.newClient(io.Discard)
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

func listExtensionNames(ctx context.Context, c client.Client) ([]string, error) {
	extensions, err := (&action.ExtensionList{Client: c}).Run(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for i := range extensions {
		names = append(names, extensions[i].Name)
	}

	return names, nil
}

func listCatalogNames(ctx context.Context, c client.Client) ([]string, error) {
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

// waitFlags are the flags of a command that can wait for its result.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (w *waitFlags) addFlags(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until "+what)
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait; 0 means no timeout")
}

// toWait returns the requested wait, or nil if --wait is not set.
func (w *waitFlags) toWait() *action.Wait {
	if !w.wait {
		return nil
	}
	return &action.Wait{Timeout: w.timeout}
}
