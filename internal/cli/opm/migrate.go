package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newMigrateCommand() *cobra.Command {
	var (
		migrate   catalogs.Migrate
		out       outputFlag
		migration migrationFlags
	)
	cmd := &cobra.Command{
		Use:   "migrate CATALOG DIR",
		Short: "Convert a catalog to the files of a file-based catalog",
		Long: `Convert a catalog to the files of a file-based catalog: one file for each package, in a directory
named after the package. The catalog is a directory, an image or a SQLite file. DIR must be empty or
must not exist.

` + catalogs.DatabaseNotice,
		Example: `  opm migrate quay.io/example/index:v4.10 ./catalog
  opm migrate bundles.db ./catalog -o yaml --migrate-level bundle-object-to-csv-metadata`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			migrate.Migration = migration.selectedMigration()
			migrate.Ref, migrate.Dir = args[0], args[1]
			migrate.Format = CatalogFormat(out.format)
			migrate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())

			return migrate.Run(cmd.Context())
		},
	}

	AddRegistryFlags(cmd, &migrate.Registry)
	out.addFlag(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	migration.addFlag(cmd)

	return cmd
}
