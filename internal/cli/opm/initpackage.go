package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newInitCommand() *cobra.Command {
	var (
		start authoring.InitPackage
		out   outputFlag
	)
	cmd := &cobra.Command{
		Use:   "init PACKAGE",
		Short: "Generate the olm.package blob of a package",
		Long:  `Generate the olm.package blob of a package for a file-based catalog.`,
		Example: `  opm init kettle --default-channel stable --description ./README.md --icon ./kettle.svg -o yaml > catalog/index.yaml
  opm init kettle -c stable`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start.Name = args[0]
			blob, err := start.Run(cmd.Context())
			if err != nil {
				return err
			}

			return catalogs.WritePackage(cmd.Context(), blob, CatalogFormat(out.format), cmd.OutOrStdout())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&start.DefaultChannel, "default-channel", "c", "", "default channel of the package")
	flags.StringVarP(&start.IconFile, "icon", "i", "", "file with the icon of the package")
	flags.StringVarP(&start.DescriptionFile, "description", "d", "", "file with the description of the package, in Markdown")
	out.addFlag(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}
