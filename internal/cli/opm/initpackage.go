package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func initCommand() *cobra.Command {
	var (
		start authoring.InitPackage
		out   output
	)
	cmd := &cobra.Command{
		Use:   "init PACKAGE",
		Short: "Start a package of a file-based catalog",
		Long:  `Start a package of a file-based catalog: its olm.package blob is written.`,
		Example: `  opm init kettle --default-channel stable --description ./README.md --icon ./kettle.svg -o yaml > catalog/index.yaml
  opm init kettle -c stable`,
		Args: terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			start.Name = args[0]
			blob, err := start.Run(cmd.Context())
			if err != nil {
				return err
			}

			return catalogs.WritePackage(cmd.Context(), blob, CatalogFormat(out.format), cmd.OutOrStdout())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&start.DefaultChannel, "default-channel", "c", "", "channel that users get who do not choose one")
	flags.StringVarP(&start.IconFile, "icon", "i", "", "file of a picture")
	flags.StringVarP(&start.DescriptionFile, "description", "d", "", "file of a text, in Markdown")
	out.bind(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}
