// Package bundle implements `mainstay bundle`, which validates bundles and pushes them to a registry.
package bundle

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/publish"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay bundle`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bundle",
		Aliases: []string{"bundles"},
		Short:   "Validate bundles and push them to a registry",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	cmd.AddCommand(newPushCommand())
	return cmd
}

func newPushCommand() *cobra.Command {
	var (
		push publish.BundlePush
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "push DIR REF",
		Short: "Validate a bundle and push it as an image",
		Long: `Validate the bundle in a directory, build an image of it and push the image to a registry.

No container engine is required. The command prints the reference of the pushed image by digest.`,
		Example: `  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0
  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0 -o json`,
		Args: terminal.ExactArgs("DIR", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			push.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			push.Dir, push.Ref = args[0], args[1]
			pushed, err := push.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format == terminal.FormatJSON || out.Format == terminal.FormatYAML {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, pushed)
			}

			fmt.Fprintln(cmd.OutOrStdout(), pushed.Reference)
			return nil
		},
	}

	opm.AddRegistryFlags(cmd, &push.Registry)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
