package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/cluster"
)

// downTimeout is longer than a supervisor needs to kill its components after their grace periods.
const downTimeout = time.Minute

var errDownTimeout = fmt.Errorf("not stopped within %s", downTimeout)

func newDownCommand(dir *dataDirFlag) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and keep its state",
		Long: `Stop the cluster that runs on the data directory and wait until it has stopped. Objects, images and addresses are kept for
the next "devcluster up". If no cluster runs, the command succeeds.`,
		Example: `  devcluster down
  devcluster down --data-dir /tmp/other`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := dir.resolveDataDir()
			if err != nil {
				return err
			}

			ctx, cancel := context.WithTimeoutCause(command.Context(), downTimeout, errDownTimeout)
			defer cancel()
			ran, err := cluster.Down(ctx, dir)
			if err != nil {
				return err
			}

			if ran {
				fmt.Fprintf(command.OutOrStdout(), "The cluster on %s is stopped.\n", dir)
			} else {
				fmt.Fprintf(command.OutOrStdout(), "No cluster runs on %s.\n", dir)
			}

			return nil
		},
	}
}

func newResetCommand(dir *dataDirFlag) *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Delete the state of a cluster that does not run",
		Long: `Delete objects, images, certificates, logs and addresses. The next "devcluster up" creates a new cluster. Only files that
devcluster wrote are deleted. The data directory is deleted if it is empty after that.`,
		Example: `  devcluster down && devcluster reset`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := dir.resolveDataDir()
			if err != nil {
				return err
			}
			if err := cluster.Reset(dir); err != nil {
				return err
			}

			fmt.Fprintf(command.OutOrStdout(), "The state in %s is deleted.\n", dir)
			return nil
		},
	}
}
