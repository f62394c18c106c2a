package opm

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// composite is the type of the template that is two files, and makes files.
const composite = "composite"

func renderTemplateCommand() *cobra.Command {
	var (
		render    catalogs.RenderTemplate
		build     catalogs.RenderComposite
		out       output
		migration migrationFlags
	)

	cmd := &cobra.Command{
		Use:   "render-template [TYPE] [FILE]",
		Short: "Make a catalog from a template",
		Long: `Make a catalog from a template. The type is basic, semver or substitutes; without one, the
schema of the template says it. Without a file, or with -, the template is read from
standard input.

A template of the type composite is two files, --composite-config and --catalog-config,
and makes the files that these name.`,
		Example: `  opm alpha render-template semver ./kettle.semver.yaml -o yaml
  opm alpha render-template ./kettle.basic.yaml
  opm alpha render-template substitutes - -o mermaid
  opm alpha render-template composite -f catalogs.yaml -c composite.yaml`,
		Args: terminal.Usage(cobra.RangeArgs(0, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			progress := terminal.NewSilentProgress(cmd.ErrOrStderr())
			if len(args) > 0 && args[0] == composite {
				build.Registry, build.Progress, build.Format = render.Registry, progress, CatalogFormat(out.format)
				return build.Run(cmd.Context())
			}

			var err error
			if render.Migration, err = migration.parse(); err != nil {
				return err
			}

			input, err := templateInput(cmd, args, &render.Type)
			if err != nil {
				return err
			}

			defer func() { _ = input.Close() }() // it was only read
			render.Input, render.Progress = input, progress
			render.Format, render.Mermaid = CatalogFormat(out.format), out.format == formatMermaid

			return render.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	BindRegistry(cmd, &render.Registry)
	out.bind(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML, formatMermaid)
	migration.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&build.Contributions, "composite-config", "c", "composite.yaml", "composite: file of the contributions")
	flags.StringVarP(&build.Catalogs, "catalog-config", "f", "catalogs.yaml", "composite: file or URL of the catalogs")
	flags.BoolVar(&build.Validate, "validate", true, "composite: check what was made")
	flags.BoolVar(&build.AllowCommands, "allow-commands", false, "composite: let the template run the commands that it names")

	return cmd
}

// templateInput opens the template, and reads the type if there is one among the
// arguments.
func templateInput(cmd *cobra.Command, args []string, kind *template.Type) (io.ReadCloser, error) {
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

	return openInput(cmd, name, "unable to open %q: %w")
}

// openInput opens a file, or standard input for a dash. The failure takes the name of the
// file and why.
func openInput(cmd *cobra.Command, name, failure string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf(failure, name, err)
	}
	return file, nil
}

func convertTemplateCommand() *cobra.Command {
	return group("convert-template", "Make a template from a catalog",
		convertCommand(template.Basic, "Make a basic template from a catalog", `Make a basic template from a catalog: each bundle is named by its image alone.`),
		convertCommand(template.Substitutes, "Make a template of substitutes from a catalog", `Make a template of substitutes from a catalog, to which substitutions are to be added.`),
	)
}

func convertCommand(kind template.Type, short, long string) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     string(kind) + " [FILE]",
		Short:   short,
		Long:    long + ` Without a file, or with -, it is read from standard input.`,
		Example: fmt.Sprintf("  opm alpha convert-template %[1]s ./catalog/kettle/catalog.yaml -o yaml > kettle.%[1]s.yaml", kind),
		Args:    terminal.Usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			name := "-"
			if len(args) > 0 {
				name = args[0]
			}

			input, err := openInput(cmd, name, "unable to open input: %q: %w")
			if err != nil {
				return err
			}

			defer func() { _ = input.Close() }() // it was only read
			convert := catalogs.ConvertTemplate{Type: kind, Input: input, Format: CatalogFormat(out.format)}
			return convert.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	out.bind(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}
