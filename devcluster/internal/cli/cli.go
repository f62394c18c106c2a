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
		Short: "Run a Kubernetes cluster without a container engine",
		Long: `devcluster runs etcd, the Kubernetes API server, controller manager and scheduler, an OCI registry and nodes from this one
binary. All state is in one directory.

When it is called by the name of a program that it contains (etcd, kube-apiserver, kubectl, ...), it runs that program.`,
		Example: `  devcluster up                                     # a control plane, a registry and one simulated node; Ctrl-C stops it
  devcluster up --detach                            # the same in the background
  export KUBECONFIG=$(devcluster kubeconfig --path)
  devcluster down`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}

	dir := &dataDirFlag{}
	command.PersistentFlags().StringVar(&dir.path, "data-dir", "",
		"directory of all state (default $XDG_DATA_HOME/mainstay/devcluster, or ~/.local/share/mainstay/devcluster)")
	_ = command.MarkPersistentFlagDirname("data-dir") // Fails only for a flag that does not exist.
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

// dataDirFlag is the value of --data-dir.
type dataDirFlag struct{ path string }

// resolveDataDir returns the data directory that the flag selects, or the default one.
func (f *dataDirFlag) resolveDataDir() (state.Dir, error) {
	path := f.path
	if path == "" {
		var err error
		if path, err = state.DefaultDir(); err != nil {
			return "", err
		}
	}

	return state.NewDir(path)
}
