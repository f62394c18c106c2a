package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// New makes the command line of the program opm.
func New(options Options) *cobra.Command {
	root := &cobra.Command{
		Use:   "opm",
		Short: "Make and check catalogs of operators",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.Group,
	}
	root.AddCommand(RenderCommand("opm"), ValidateCommand("opm"), terminal.VersionCommand("opm", terminal.PrintOpmVersion))
	return terminal.Finish(root)
}

// Options are what the command line is made of beside this package.
type Options struct{}
