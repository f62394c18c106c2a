package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) clusterInitCommand() *cobra.Command {
	var (
		initialize clusterupdate.Init
		dryRun     dryRunFlag
		out        terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Have the version of the cluster managed",
		Long: `Have the version of the cluster managed: create the ClusterVersion that
cluster-version-operator needs. Without one, the operator applies nothing.

The cluster begins with the release of its operator. It follows the channel of updates, if one is
named, at the update service. A ClusterVersion that exists is left as it is.`,
		Example: `  mainstay cluster init --channel stable-1.4
  mainstay cluster init --channel stable-1.4 --upstream https://updates.example.com/api/upgrades_info/v1/graph
  mainstay cluster init --dry-run=client -o yaml`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cv, err := initialize.ClusterVersion()
			if err != nil {
				return &terminal.UsageError{Err: err}
			}
			if dryRun.client {
				return dryRun.print(cmd, &out, []client.Object{cv})
			}

			if initialize.Client, err = a.kube.client(cmd.ErrOrStderr()); err != nil {
				return err
			}

			cv, err = initialize.Run(cmd.Context())
			if err != nil {
				return err
			}

			typed(cv, configv1.GroupVersion, configv1.ClusterVersionKind)
			if out.Format != "" {
				return printObjects(cmd.OutOrStdout(), out.Format, []client.Object{cv}, false)
			}

			fmt.Fprintln(cmd.OutOrStdout(), resourceName(cv), "created")
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&initialize.Channel, "channel", "", "channel of updates that the cluster follows (default: none)")
	flags.StringVar(&initialize.Upstream, "upstream", "", "URL of the update service (default: that of cluster-version-operator)")
	flags.StringVar(&initialize.ClusterID, "cluster-id", "", "UUID that tells the cluster from others (default: a random one)")
	dryRun.bind(cmd)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
