// Package kubeconfig is the flags that choose a cluster and a user, as kubectl has them,
// and what they come to. It links no client of the cluster.
package kubeconfig

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Flags choose a cluster and a user.
type Flags struct {
	file      string
	overrides clientcmd.ConfigOverrides
}

// shown are the flags used every day, which the help has; the others work too.
var shown = []string{"context", "cluster", "user", "as", "server"}

// Bind adds the flags to a set.
func (f *Flags) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
	overrides := clientcmd.RecommendedConfigOverrideFlags("")
	// The namespace of a context means nothing to kinds without one, and the commands
	// have flags of their own for namespaces.
	overrides.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&f.overrides, all, overrides)
	all.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(shown, flag.Name)
		flags.AddFlag(flag)
	})
}

// Config says how the chosen cluster is reached. An error is a *report.Error.
func (f *Flags) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no cluster is configured")
	}

	if err != nil {
		return nil, &report.Error{
			Object: "kubeconfig", Err: err,
			Advice: "name the file with --kubeconfig or $KUBECONFIG, and a context of it with --context",
		}
	}

	config.UserAgent = rest.DefaultKubernetesUserAgent()
	return config, nil
}
