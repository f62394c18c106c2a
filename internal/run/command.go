package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// server is a component of `mainstay run`.
type server struct {
	name, short, long, example string
	// metricsAddress is the default address of /metrics.
	metricsAddress string
	// addFlags adds the flags that only this server has, and changes the defaults of the common flags.
	addFlags func(o *options, cmd *cobra.Command)
	// validate returns an error for invalid values of these flags. It is called before the cluster is contacted. Nil means
	// that all values are valid.
	validate func() error
	// setup adds the controllers of the server to its manager.
	setup func(ctx context.Context, o *options, mgr ctrl.Manager) error
}

// newServers returns the components of `mainstay run` that have a manager.
func newServers() []server {
	return []server{
		newCatalogdServer(),
		newOperatorControllerServer(),
		newClusterVersionServer(),
		newNodeControllerServer(),
		newNodeDaemonServer(),
		newNodeServer(),
		newOLMOperatorServer(),
		newCatalogOperatorServer(),
		newMarketplaceServer(),
		newPackageServer(),
		newAllServer(),
	}
}

// NewCommand returns the command `mainstay run`. The argument program is the version of this program.
func NewCommand(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run COMPONENT",
		Short:   "Run a server component",
		Long:    "Run a server component of Mainstay until it is interrupted.",
		Example: "  mainstay run all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return newUnknownComponentError(cmd, args[0])
			}
			return cmd.Help()
		},
	}

	for _, s := range newServers() {
		cmd.AddCommand(s.newCommand(program))
	}

	cmd.AddCommand(newUpdateServiceCommand(), newConsoleCommand(program, nil), newCopyReleaseCommand(), NewConfigMapServerCommand())
	return cmd
}

func (s server) newCommand(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use: s.name, Short: s.short, Long: s.long, Example: s.example,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Version:      program, // It adds the flag --version.
	}

	o := s.newOptions(program, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		if s.validate != nil {
			if err := s.validate(); err != nil {
				return err
			}
		}
		ctx := cmd.Context()
		return o.runManager(ctx, s.name, func(mgr ctrl.Manager) error { return s.setup(ctx, o, mgr) })
	}

	return cmd
}

// newUnknownComponentError returns the error for a component that does not exist, with the one of a similar name.
func newUnknownComponentError(cmd *cobra.Command, name string) error {
	const list = "'mainstay run --help' lists the components"
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		return fmt.Errorf("unknown component %q, did you mean %q? %s", name, similar[0], list)
	}
	return fmt.Errorf("unknown component %q: %s", name, list)
}

// newOptions adds the flags of the server to a command and returns the options that they set.
func (s server) newOptions(program string, cmd *cobra.Command) *options {
	o := &options{program: program}
	o.addCommonFlags(cmd.Flags(), s.metricsAddress)
	s.addFlags(o, cmd)
	return o
}

// setFlagDefault changes the default of a flag.
func setFlagDefault(cmd *cobra.Command, name, value string) {
	flag := cmd.Flags().Lookup(name)
	flag.DefValue = value
	_ = flag.Value.Set(value) // the value is valid
}
