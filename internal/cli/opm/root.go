package opm

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Options configure the command line.
type Options struct {
	// Serve serves catalogs over gRPC.
	Serve Server
}

// NewCommand returns the command line of the program opm.
func NewCommand(options Options) *cobra.Command {
	root := newCommandGroup("opm", "Build, validate and serve operator catalogs")
	root.Long = `Build, validate and serve operator catalogs.

A catalog is a directory of JSON and YAML files, or an image of one. A bundle is one version of an
operator: a directory with manifests and metadata, or an image of one.`
	addTLSFlags(root.PersistentFlags(), "")
	root.Flags().Bool("debug", false, "enable debug logging")
	_ = root.Flags().MarkHidden("debug") // the flag was just added
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return validateTLSFlags(cmd) }
	version := terminal.NewVersionCommand("opm", terminal.PrintOpmVersion)
	version.Args = cobra.ArbitraryArgs // existing scripts pass arguments
	root.AddCommand(
		NewRenderCommand("opm"), NewValidateCommand("opm"), newMigrateCommand(),
		newInitCommand(), newGenerateCommand(), version,
		newServeCommand(options.Serve), newAlphaCommand(), newIndexCommand(), newRegistryCommand(options.Serve),
		NewSearchCommand("opm"), NewShowCommand("opm"), NewGraphCommand("opm"), NewDiffCommand("opm"),
	)

	hideAlphaCommands(root)

	return terminal.ConfigureRoot(root)
}

// newCommandGroup returns a command that only has subcommands.
func newCommandGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: terminal.RunGroup}
	cmd.AddCommand(commands...)
	return cmd
}

func newAlphaCommand() *cobra.Command {
	return newCommandGroup("alpha", "Commands whose flags and output can change",
		newListCommand(), newRenderGraphCommand(), newRenderTemplateCommand(), newConvertTemplateCommand(),
		newBundleCommand(),
	)
}

// hideAlphaCommands hides the alpha commands and flags from the help, unless $HELP_ALPHA is true.
func hideAlphaCommands(root *cobra.Command) {
	showAlpha := os.Getenv("HELP_ALPHA") == "true"
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "alpha" {
			cmd.Hidden = !showAlpha
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if strings.HasPrefix(flag.Name, "alpha-") {
				flag.Hidden = !showAlpha
				flag.Usage = "(ALPHA: this flag may change or go away) " + flag.Usage
			}
		})
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}

	visit(root)
}

// markDeprecated hides a command from the help of its parent, and prints a deprecation notice to
// standard error whenever the command is called. The notice of cobra goes to standard output if the
// output is redirected.
func markDeprecated(cmd *cobra.Command, instead string) {
	cmd.Hidden = true
	printNotice := func(cmd *cobra.Command) {
		cmd.PrintErrf("Command %q is deprecated, %s\n", cmd.Name(), instead)
	}
	prepare := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		printNotice(cmd)
		if prepare == nil {
			return nil
		}
		return prepare(cmd, args)
	}

	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		printNotice(cmd)
		cmd.Parent().HelpFunc()(cmd, args)
	})
}
