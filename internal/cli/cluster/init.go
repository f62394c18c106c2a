package cluster

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newInitCommand(session *kube.Session) *cobra.Command {
	var (
		initialize clusterupdate.Init
		dryRun     kube.DryRunFlag
		out        terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the ClusterVersion of the cluster",
		Long: `Create the ClusterVersion that cluster-version-operator reconciles. Without a ClusterVersion, the
operator applies nothing.

The cluster starts with the release of the operator. If a channel is set, the cluster retrieves the
updates of that channel from the update service. An existing ClusterVersion is not changed.`,
		Example: `  mainstay cluster init --channel stable-1.4
  mainstay cluster init --channel stable-1.4 --upstream https://updates.example.com/api/upgrades_info/v1/graph
  mainstay cluster init --dry-run=client -o yaml`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cv, err := initialize.ClusterVersion()
			if err != nil {
				return &terminal.UsageError{Err: err}
			}
			if dryRun.Client {
				return dryRun.PrintManifests(cmd, &out, []client.Object{cv})
			}

			if initialize.Client, err = session.NewClient(cmd.ErrOrStderr()); err != nil {
				return err
			}

			cv, err = initialize.Run(cmd.Context())
			if err != nil {
				return err
			}

			kube.SetGroupVersionKind(cv, configv1.GroupVersion, configv1.ClusterVersionKind)
			if out.Format != "" {
				return kube.PrintObjects(cmd.OutOrStdout(), out.Format, []client.Object{cv}, false)
			}

			fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(cv), "created")
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&initialize.Channel, "channel", "", "update channel of the cluster (default: none)")
	flags.StringVar(&initialize.Upstream, "upstream", "", "URL of the update service (default: the one that cluster-version-operator is configured with)")
	flags.StringVar(&initialize.ClusterID, "cluster-id", "", "UUID of the cluster (default: a random one)")
	dryRun.AddFlag(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
