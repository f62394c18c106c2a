package opm

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// templateTypeComposite is the template type that reads two files and writes files.
const templateTypeComposite = "composite"

func newRenderTemplateCommand() *cobra.Command {
	var (
		render    catalogs.RenderTemplate
		build     catalogs.RenderComposite
		out       outputFlag
		migration migrationFlags
	)

	cmd := &cobra.Command{
		Use:   "render-template [TYPE] [FILE]",
		Short: "Render a catalog from a template",
		Long: `Render a catalog from a template. The type is basic, semver or substitutes, and defaults to the
schema of the template. If no file or - is given, the template is read from standard input.

A template of type composite consists of two files, --composite-config and --catalog-config, and is
rendered to the files that these specify.`,
		Example: `  opm alpha render-template semver ./kettle.semver.yaml -o yaml
  opm alpha render-template ./kettle.basic.yaml
  opm alpha render-template substitutes - -o mermaid
  opm alpha render-template composite -f catalogs.yaml -c composite.yaml`,
		Args: cobra.RangeArgs(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := terminal.NewSilentProgress(cmd.ErrOrStderr())
			if len(args) > 0 && args[0] == templateTypeComposite {
				build.Registry, build.Progress, build.Format = render.Registry, progress, CatalogFormat(out.format)
				return build.Run(cmd.Context())
			}

			render.Migration = migration.selectedMigration()
			input, err := openTemplateInput(cmd, args, &render.Type)
			if err != nil {
				return err
			}
			defer func() { _ = input.Close() }() // it was only read
			render.Input, render.Progress = input, progress
			render.Format, render.Mermaid = CatalogFormat(out.format), out.format == formatMermaid

			return render.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	AddRegistryFlags(cmd, &render.Registry)
	out.addFlag(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML, formatMermaid)
	migration.addFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&build.Contributions, "composite-config", "c", "composite.yaml", "composite: file with the contributions")
	flags.StringVarP(&build.Catalogs, "catalog-config", "f", "catalogs.yaml", "composite: file or URL with the catalogs")
	flags.BoolVar(&build.Validate, "validate", true, "composite: validate the rendered catalogs")
	flags.BoolVar(&build.AllowCommands, "allow-commands", false, "composite: allow the template to run commands")

	return cmd
}

// openTemplateInput opens the template. If the arguments contain a template type, it is stored in kind.
func openTemplateInput(cmd *cobra.Command, args []string, kind *template.Type) (io.ReadCloser, error) {
	name := "-"
	switch len(args) {
	case 1:
		known, err := template.ParseType(args[0])
		if err != nil {
			name = args[0]
		}
		*kind = known
	case 2:
		known, err := template.ParseType(args[0])
		if err != nil {
			return nil, &terminal.UsageError{Err: err}
		}
		*kind, name = known, args[1]
	}

	return openInputFile(cmd, name, "unable to open %q: %w")
}

// openInputFile opens a file, or standard input for "-". The argument failure is the format of the
// error, with the file name and the cause.
func openInputFile(cmd *cobra.Command, name, failure string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf(failure, name, err)
	}
	return file, nil
}

func newConvertTemplateCommand() *cobra.Command {
	return newCommandGroup("convert-template", "Convert a catalog to a template",
		newConvertCommand(template.Basic, "Convert a catalog to a basic template", `Convert a catalog to a basic template, which references each bundle by its image.`),
		newConvertCommand(template.Substitutes, "Convert a catalog to a substitutes template", `Convert a catalog to a substitutes template. Add the substitutions to the result.`),
	)
}

func newConvertCommand(kind template.Type, short, long string) *cobra.Command {
	var out outputFlag
	cmd := &cobra.Command{
		Use:     string(kind) + " [FILE]",
		Short:   short,
		Long:    long + ` If no file or - is given, the catalog is read from standard input.`,
		Example: fmt.Sprintf("  opm alpha convert-template %[1]s ./catalog/kettle/catalog.yaml -o yaml > kettle.%[1]s.yaml", kind),
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}

			input, err := openInputFile(cmd, name, "unable to open input: %q: %w")
			if err != nil {
				return err
			}
			defer func() { _ = input.Close() }() // it was only read
			convert := catalogs.ConvertTemplate{Type: kind, Input: input, Format: CatalogFormat(out.format)}
			return convert.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	out.addFlag(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}
