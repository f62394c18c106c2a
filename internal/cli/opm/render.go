package opm

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// NewRenderCommand returns the command render. The examples start with program.
func NewRenderCommand(program string) *cobra.Command {
	var (
		render    catalogs.Render
		out       outputFlag
		migration migrationFlags
		template  string
	)

	cmd := &cobra.Command{
		Use:   "render REF...",
		Short: "Render catalogs and bundles as a file-based catalog",
		Long: `Render catalogs and bundles as one file-based catalog. A reference is the directory of a bundle or
of a file-based catalog, a SQLite file, or an image of one of these.

Packages are written in the order of their names, each with its channels, bundles and other blobs.
Nothing is written if one of the references cannot be read.

` + catalogs.DatabaseNotice,
		Example: fmt.Sprintf(`  %[1]s render quay.io/operatorhubio/catalog:latest
  %[1]s render ./bundle -o yaml --image-ref-template 'registry.example.com/{{.Package}}:v{{.Version}}'
  %[1]s render registry.example.com/argocd-operator:v0.6.0 -o yaml --migrate-level bundle-object-to-csv-metadata`, program),
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			render.Migration = migration.selectedMigration()
			if template != "" {
				var err error
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

	AddRegistryFlags(cmd, &render.Registry)
	out.addFlag(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	migration.addFlag(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&migration.all, "migrate", false, "migrate bundles to the latest format; the same as --migrate-level all")
	cmd.MarkFlagsMutuallyExclusive("migrate", "migrate-level")
	usage := "Go template for the image references of bundles in directories, with .Package, .Name and .Version"
	flags.StringVar(&template, "image-ref-template", "", usage)
	flags.StringVar(&template, "alpha-image-ref-template", "", "alias of --image-ref-template")

	return cmd
}

// CatalogFormat returns the catalog format for a value of the flag --output.
func CatalogFormat(value string) fbc.Format {
	if value == terminal.FormatYAML {
		return fbc.FormatYAML
	}
	return fbc.FormatJSON
}

// migrationFlags are the flags that select the migrations of bundles.
type migrationFlags struct {
	level string
	last  bundle.Migration
	all   bool
}

// addFlag adds the flag --migrate-level. Its errors have the text of upstream opm.
func (m *migrationFlags) addFlag(cmd *cobra.Command) {
	m.last = bundle.MigrateNone
	cmd.Flags().StringVar(&m.level, "migrate-level", "", "last migration to apply to bundles: none|bundle-object-to-csv-metadata|all")
	terminal.ValidateFlag(cmd, "migrate-level", func() error {
		var err error
		if m.last, err = bundle.ParseMigration(m.level); err != nil {
			return &terminal.UsageError{Err: err, Advice: "set --migrate-level to none, bundle-object-to-csv-metadata or all"}
		}
		return nil
	})
}

// selectedMigration returns the last migration to apply.
func (m *migrationFlags) selectedMigration() bundle.Migration {
	if m.all {
		return bundle.MigrateAll
	}
	return m.last
}
