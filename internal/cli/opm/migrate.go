package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func migrateCommand() *cobra.Command {
	var (
		migrate   catalogs.Migrate
		out       output
		migration migrationFlags
	)
	cmd := &cobra.Command{
		Use:   "migrate CATALOG DIR",
		Short: "Write a catalog as the files of a file-based catalog",
		Long: `Write a catalog as the files of a file-based catalog: one for each package, in a folder of
its name. The catalog is a folder, an image or a SQLite file; DIR must not exist or be
empty.

` + catalogs.DatabaseNotice,
		Example: `  opm migrate quay.io/example/index:v4.10 ./catalog
  opm migrate bundles.db ./catalog -o yaml --migrate-level bundle-object-to-csv-metadata`,
		Args: terminal.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			var err error
			if migrate.Migration, err = migration.parse(); err != nil {
				return err
			}

			migrate.Ref, migrate.Dir = args[0], args[1]
			migrate.Format = CatalogFormat(out.format)
			migrate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())

			return migrate.Run(cmd.Context())
		},
	}

	BindRegistry(cmd, &migrate.Registry)
	out.bind(cmd, terminal.FormatJSON, terminal.FormatJSON, terminal.FormatYAML)
	migration.bind(cmd)

	return cmd
}
