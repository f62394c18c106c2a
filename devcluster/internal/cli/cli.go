// Package cli is devcluster's command line: flags and printing over package cluster.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// NewCommand returns the command devcluster with all its subcommands. Errors are returned, not printed.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes without a container engine",
		Long: `devcluster runs etcd, the Kubernetes API server, controller manager and scheduler, an OCI registry and nodes, all from
this one binary and with all state in one directory.

Called by the name of a program that it carries (etcd, kube-apiserver, kubectl, ...) it is that program.`,
		Example: `  devcluster up                                     # a control plane, a registry and one simulated node; Ctrl-C stops it
  devcluster up --detach                            # the same in the background
  export KUBECONFIG=$(devcluster kubeconfig --path)
  devcluster down`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}

	dir := &dirFlag{}
	command.PersistentFlags().StringVar(&dir.path, "data-dir", "",
		"directory of all state (default $XDG_DATA_HOME/mainstay/devcluster, or ~/.local/share/mainstay/devcluster)")
	_ = command.MarkPersistentFlagDirname("data-dir") // Fails for a flag that does not exist only.
	command.AddCommand(
		newUpCommand(dir),
		newStatusCommand(dir),
		newKubeconfigCommand(dir),
		newLogsCommand(dir),
		newDownCommand(dir),
		newResetCommand(dir),
	)

	return command
}

// dirFlag is --data-dir.
type dirFlag struct{ path string }

func (f *dirFlag) dir() (state.Dir, error) {
	path := f.path
	if path == "" {
		var err error
		if path, err = state.DefaultDir(); err != nil {
			return "", err
		}
	}

	return state.NewDir(path)
}
