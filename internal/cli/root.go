package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Options are what a command line is made of beside this package.
type Options struct {
	// Run is the command `mainstay run`, which starts the servers. Nil leaves it out.
	Run *cobra.Command
	// Now is the clock by which ages are told. Nil means the real one.
	Now func() time.Time
}

// app is what the commands of one command line share.
type app struct {
	kube kubeFlags
	now  func() time.Time
}

// Mainstay makes the command line of the program mainstay.
func Mainstay(options Options) *cobra.Command {
	a := &app{now: options.Now}
	if a.now == nil {
		a.now = time.Now
	}
	root := &cobra.Command{
		Use:   "mainstay",
		Short: "Manage what extends a Kubernetes cluster",
		Long: `mainstay installs extensions and operators from catalogs, keeps them up to date, and
builds the bundles and catalogs that they come from.

Begin with 'mainstay install', add a catalog with 'mainstay catalog add', and install
something from it with 'mainstay extension install'.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.Group,
	}
	root.AddCommand(
		a.bundleCommand(), a.catalogCommand(), a.clusterCommand(), a.extensionCommand(),
		imageCommand(), a.installCommand(), a.nodesCommand(), a.rbacCommand(), a.releaseCommand(), a.uninstallCommand(), updatesCommand(), terminal.VersionCommand("mainstay", terminal.PrintVersion),
	)
	if options.Run != nil {
		root.AddCommand(options.Run)
	}
	return terminal.Finish(root)
}
