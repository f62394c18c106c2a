// Package kubeconfig has the flags of kubectl that select a cluster and a user, and loads the client
// configuration for them. It links no Kubernetes client.
package kubeconfig

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Flags select a cluster and a user.
type Flags struct {
	file      string
	overrides clientcmd.ConfigOverrides
}

// visibleFlags are the flags that the help lists. The others are hidden, but work as well.
var visibleFlags = []string{"context", "cluster", "user", "as", "server"}

// AddFlags adds the flags to a flag set.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
	overrides := clientcmd.RecommendedConfigOverrideFlags("")
	// Cluster-scoped kinds do not use the namespace of a context, and the commands have their own
	// flags for namespaces.
	overrides.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&f.overrides, all, overrides)
	all.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(visibleFlags, flag.Name)
		flags.AddFlag(flag)
	})
}

// Config returns the client configuration of the selected cluster. An error is a *report.Error.
func (f *Flags) Config() (*rest.Config, error) {
	config, err := f.newLoader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no cluster is configured")
	}

	if err != nil {
		return nil, &report.Error{
			Object: "kubeconfig", Err: err,
			Advice: "specify the file with --kubeconfig or $KUBECONFIG, and a context with --context",
		}
	}

	config.UserAgent = rest.DefaultKubernetesUserAgent()
	return config, nil
}

// Namespace returns the namespace of the selected context. Without one it is default.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.newLoader().Namespace()
	return namespace, err
}

func (f *Flags) newLoader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
}
