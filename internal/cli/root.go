package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/bundle"
	"github.com/mainstay-dev/mainstay/internal/cli/catalog"
	"github.com/mainstay-dev/mainstay/internal/cli/cluster"
	"github.com/mainstay-dev/mainstay/internal/cli/console"
	"github.com/mainstay-dev/mainstay/internal/cli/extension"
	"github.com/mainstay-dev/mainstay/internal/cli/image"
	"github.com/mainstay-dev/mainstay/internal/cli/install"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/migrate"
	"github.com/mainstay-dev/mainstay/internal/cli/nodes"
	"github.com/mainstay-dev/mainstay/internal/cli/rbac"
	"github.com/mainstay-dev/mainstay/internal/cli/release"
	"github.com/mainstay-dev/mainstay/internal/cli/subscription"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/cli/updates"
)

// Options configure the command line.
type Options struct {
	// Run is the command `mainstay run`, which starts the servers. Nil omits it.
	Run *cobra.Command
	// Now is the clock for ages. The default is time.Now.
	Now func() time.Time
	// Interactive reports whether a command can ask for confirmation. The default is
	// terminal.IsInteractive.
	Interactive func(cmd *cobra.Command) bool
}

// NewCommand returns the command line of the program mainstay.
func NewCommand(options Options) *cobra.Command {
	session := &kube.Session{Now: options.Now, Interactive: options.Interactive}
	if session.Now == nil {
		session.Now = time.Now
	}
	if session.Interactive == nil {
		session.Interactive = terminal.IsInteractive
	}

	root := &cobra.Command{
		Use:   "mainstay",
		Short: "Manage the extensions of a Kubernetes cluster",
		Long: `mainstay installs extensions and operators from catalogs, keeps them up to date, and builds bundles
and catalogs.

To get started, run 'mainstay install', add a catalog with 'mainstay catalog add', and install an
extension with 'mainstay extension install'.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.RunGroup,
	}

	root.AddCommand(
		bundle.NewCommand(),
		catalog.NewCommand(session),
		cluster.NewCommand(session),
		console.NewCommand(session),
		extension.NewCommand(session),
		image.NewCommand(),
		install.NewCommand(session),
		install.NewUninstallCommand(session),
		migrate.NewCommand(migrate.Options{AddFlags: session.AddFlags, Config: session.Config}),
		nodes.NewCommand(session),
		rbac.NewCommand(session),
		release.NewCommand(session),
		subscription.NewCommand(session),
		updates.NewCommand(),
		terminal.NewVersionCommand("mainstay", terminal.PrintVersion),
	)
	kube.RestrictNamespaceFlags(root)
	if options.Run != nil {
		root.AddCommand(options.Run)
	}

	return terminal.ConfigureRoot(root)
}
