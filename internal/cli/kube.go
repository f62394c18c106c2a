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

// kubeFlags are the flags that choose a cluster and a user.
type kubeFlags struct{ kubeconfig.Flags }

// bind adds the flags to a command and those below it.
func (k *kubeFlags) bind(cmd *cobra.Command) { k.Bind(cmd.PersistentFlags()) }

// client connects to the chosen cluster. Warnings of the API server go to w.
func (k *kubeFlags) client(w io.Writer) (client.Client, error) {
	config, err := k.Config()
	if err != nil {
		return nil, err
	}

	// A status reads dozens of objects one by one; the default of 5 a second would be
	// seen as slowness, and the server protects itself.
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
			Advice: "check that the cluster runs, or choose another with --context",
		}
	}

	return c, nil
}

// completionTimeout is how long a shell waits for names from the cluster: a person has
// pressed Tab and looks at the cursor.
const completionTimeout = 3 * time.Second

// names lists the names of some kind in the cluster.
type names func(context.Context, client.Client) ([]string, error)

// completeNames completes the first argument of a command by the names that list gives.
func (a *app) completeNames(list names) cobra.CompletionFunc {
	complete := a.completeFlag(list)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// completeFlag completes the value of a flag by the names that list gives.
func (a *app) completeFlag(list names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := a.kube.client(io.Discard)
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

func extensionNames(ctx context.Context, c client.Client) ([]string, error) {
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

func catalogNames(ctx context.Context, c client.Client) ([]string, error) {
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

// waitFlags are the flags of a command that can wait for its outcome.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (w *waitFlags) bind(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until "+what)
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait; 0 means without an end")
}

// value returns the wait that was asked for, nil for none.
func (w *waitFlags) value() *action.Wait {
	if !w.wait {
		return nil
	}
	return &action.Wait{Timeout: w.timeout}
}
