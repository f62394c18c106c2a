package opm

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// RenderCommand makes `render`. The program is what its examples are called by.
func RenderCommand(program string) *cobra.Command {
	var (
		render    catalogs.Render
		out       output
		migration migrationFlags
		template  string
	)

	cmd := &cobra.Command{
		Use:   "render REF...",
		Short: "Write catalogs and bundles as one file-based catalog",
		Long: `Write catalogs and bundles as one file-based catalog. A reference is the folder of a bundle
or of a file-based catalog, a SQLite file, or else the image of one of these.

Packages are written in the order of their names, each with its channels, its bundles and
what else there is. Nothing is written when something cannot be read.

` + catalogs.DatabaseNotice,
		Example: fmt.Sprintf(`  %[1]s render quay.io/operatorhubio/catalog:latest
  %[1]s render ./bundle -o yaml --image-ref-template 'registry.example.com/{{.Package}}:v{{.Version}}'
  %[1]s render registry.example.com/argocd-operator:v0.6.0 -o yaml --migrate-level bundle-object-to-csv-metadata`, program),
		Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			var err error
			if render.Migration, err = migration.parse(); err != nil {
				return err
			}

			if template != "" {
				if render.ImageTemplate, err = bundle.ParseImageTemplate(template); err != nil {
					return &terminal.UsageError{Err: err}
				}
			}

			render.Refs = args
			render.Format = CatalogFormat(out.format)
			render.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())

			return render.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	BindRegistry(cmd, &render.Registry)
	out.bind(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	migration.bind(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&migration.all, "migrate", false, "bring bundles up to date: the same as --migrate-level all")
	cmd.MarkFlagsMutuallyExclusive("migrate", "migrate-level")
	usage := "what the images of bundles in folders are called: a Go template over .Package, .Name and .Version"
	flags.StringVar(&template, "image-ref-template", "", usage)
	flags.StringVar(&template, "alpha-image-ref-template", "", "the same as --image-ref-template")

	return cmd
}

// CatalogFormat returns the format of catalogs for a value of the flag --output.
func CatalogFormat(value string) fbc.Format {
	if value == terminal.FormatYAML {
		return fbc.FormatYAML
	}
	return fbc.FormatJSON
}

// migrationFlags say how far bundles are brought up to date.
type migrationFlags struct {
	level string
	all   bool
}

func (m *migrationFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.level, "migrate-level", "", "bring bundles up to date, up to this change: none|bundle-object-to-csv-metadata|all")
}

func (m *migrationFlags) parse() (bundle.Migration, error) {
	if m.all {
		return bundle.MigrateAll, nil
	}

	last, err := bundle.ParseMigration(m.level)
	if err != nil {
		return "", &terminal.UsageError{Err: err}
	}
	return last, nil
}
