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
	// Interactive reports whether a person can be asked at the terminal of a command. Nil
	// means whether its input and its errors are one.
	Interactive func(cmd *cobra.Command) bool
}

// app is what the commands of one command line share.
type app struct {
	kube kubeFlags
	now  func() time.Time
	// interactive reports whether a person can be asked.
	interactive func(cmd *cobra.Command) bool
}

// Mainstay makes the command line of the program mainstay.
func Mainstay(options Options) *cobra.Command {
	a := &app{now: options.Now, interactive: options.Interactive}
	if a.now == nil {
		a.now = time.Now
	}
	if a.interactive == nil {
		a.interactive = terminal.IsInteractive
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
