// Package image implements `mainstay image`, which builds the image of the components of Mainstay.
package image

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay image`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the image of the Mainstay components",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.RunGroup,
	}

	cmd.AddCommand(newBuildCommand())
	return cmd
}

func newBuildCommand() *cobra.Command {
	var (
		build action.ImageBuild
		out   terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the image of the components from a mainstay binary",
		Long: `Build the image of the components from a mainstay binary. No container engine is required.

The image contains the binary and the public certificate authorities of Mozilla's list; the trust
store of this machine is not used. OLM Classic also uses the image for opm and for the utilities cp,
cpb and copy-content.`,
		Example: `  # Push an image to a registry, and install from it
  mainstay image build --binary bin/mainstay --push registry.example.com/mainstay:v1
  mainstay install --image registry.example.com/mainstay:v1

  # Build an image for two architectures
  mainstay image build --binary mainstay-amd64 --binary mainstay-arm64 --push registry.example.com/mainstay:v1

  # Also trust the certificate authority of a company registry
  mainstay image build --binary bin/mainstay --certificate-authority company.crt --push registry.example.com/mainstay:v1

  # Write an OCI archive for 'ctr images import' or 'podman load'
  mainstay image build --binary bin/mainstay --output mainstay.tar`,
		Args: terminal.MaximumArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			build.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			built, err := build.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format == terminal.FormatJSON || out.Format == terminal.FormatYAML {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, built)
			}

			fmt.Fprintln(cmd.OutOrStdout(), cmp.Or(built.Reference, built.Output))
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringArrayVar(&build.Binaries, "binary", nil, "statically linked mainstay binary; can be repeated, once for each architecture")
	flags.StringVar(&build.Push, "push", "", "reference to push the image to")
	flags.StringVar(&build.Output, "output", "", "file to write the image to, as an OCI archive")
	flags.StringArrayVar(&build.Authorities, "certificate-authority", nil, "PEM file with certificate authorities to trust in addition to the public ones; can be repeated")
	_ = cmd.MarkFlagRequired("binary") // the flag was just added
	opm.AddRegistryFlags(cmd, &build.Registry)
	out.AddFlagAs(cmd, "format", terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
