package opm

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Options are what the command line is made of beside this package.
type Options struct {
	// Serve serves catalogs over gRPC.
	Serve Server
}

// New makes the command line of the program opm.
func New(options Options) *cobra.Command {
	root := group("opm", "Make, check and serve catalogs of operators")
	root.Long = `Make, check and serve catalogs of operators.

A catalog is a folder of JSON and YAML files, or an image of one. A bundle is one version
of an operator: a folder with manifests and metadata, or an image of one.`
	bindTLS(root.PersistentFlags(), "")
	root.Flags().Bool("debug", false, "say more")
	_ = root.Flags().MarkHidden("debug") // the flag was just added
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return checkTLS(cmd) }
	version := terminal.VersionCommand("opm", terminal.PrintOpmVersion)
	version.Args = cobra.ArbitraryArgs // scripts that pass some get their answer
	root.AddCommand(
		RenderCommand("opm"), ValidateCommand("opm"), migrateCommand(),
		initCommand(), generateCommand(), version,
		serveCommand(options.Serve), alphaCommand(), indexCommand(), registryCommand(options.Serve),
		SearchCommand("opm"), ShowCommand("opm"), GraphCommand("opm"), DiffCommand("opm"),
	)

	hideAlpha(root)

	return terminal.Finish(root)
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: terminal.Group}
	cmd.AddCommand(commands...)
	return cmd
}

func alphaCommand() *cobra.Command {
	return group("alpha", "Commands whose flags and output may still change",
		listCommand(), renderGraphCommand(), renderTemplateCommand(), convertTemplateCommand(),
		bundleCommand(),
	)
}

// hideAlpha takes what may still change out of the help, unless it is asked for.
func hideAlpha(root *cobra.Command) {
	shown := os.Getenv("HELP_ALPHA") == "true"
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "alpha" {
			cmd.Hidden = !shown
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if strings.HasPrefix(flag.Name, "alpha-") {
				flag.Hidden = !shown
				flag.Usage = "(ALPHA: this flag may change or go away) " + flag.Usage
			}
		})
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}

	visit(root)
}

// deprecate takes a command out of the help of its parent, and has it say on standard
// error, whenever it is called, what to use instead. Cobra's own notice would go to
// standard output whenever that is redirected.
func deprecate(cmd *cobra.Command, instead string) {
	cmd.Hidden = true
	say := func(cmd *cobra.Command) {
		cmd.PrintErrf("Command %q is deprecated, %s\n", cmd.Name(), instead)
	}
	prepare := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		say(cmd)
		if prepare == nil {
			return nil
		}
		return prepare(cmd, args)
	}

	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		say(cmd)
		cmd.Parent().HelpFunc()(cmd, args)
	})
}
