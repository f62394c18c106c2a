package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// kubeFlags are the flags that choose a cluster and a user, as kubectl has them.
type kubeFlags struct {
	file      string
	overrides clientcmd.ConfigOverrides
}

// bind adds the flags to a command and those below it.
func (k *kubeFlags) bind(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&k.file, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
	overrides := clientcmd.RecommendedConfigOverrideFlags("")
	// The namespace of a context means nothing to kinds without one, and the commands
	// have flags of their own for namespaces.
	overrides.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&k.overrides, all, overrides)
	// Those used every day are shown in the help; the others work too.
	shown := []string{"context", "cluster", "user", "as", "server"}
	all.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(shown, flag.Name)
		flags.AddFlag(flag)
	})
}

// client connects to the chosen cluster. Warnings of the API server go to w.
func (k *kubeFlags) client(w io.Writer) (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &k.overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no cluster is configured")
	}
	if err != nil {
		return nil, &report.Error{
			Object: "kubeconfig", Err: err,
			Advice: "name the file with --kubeconfig or $KUBECONFIG, and a context of it with --context",
		}
	}
	// A status reads dozens of objects one by one; the default of 5 a second would be
	// seen as slowness, and the server protects itself.
	config.QPS, config.Burst = 50, 100
	config.UserAgent = rest.DefaultKubernetesUserAgent()
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

// value gives the wait that was asked for, nil for none.
func (w *waitFlags) value() *action.Wait {
	if !w.wait {
		return nil
	}
	return &action.Wait{Timeout: w.timeout}
}
