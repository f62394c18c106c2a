package migrate

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// catalogsFlags are the flags of `mainstay migrate catalogs`.
type catalogsFlags struct {
	namespace string
	dryRun    bool
	out       terminal.Output
}

func newCatalogsCommand(o Options) *cobra.Command {
	f := &catalogsFlags{}
	cmd := &cobra.Command{
		Use:   "catalogs",
		Short: "Create ClusterCatalogs with the images of CatalogSources",
		Long: `Create ClusterCatalogs with the images of CatalogSources. CatalogSources with the same image have one
ClusterCatalog. Those of one name with different images have several, with the namespace in their names.
A CatalogSource without an image is reported and skipped. The CatalogSources stay.`,
		Example: `  # Show what would be created
  mainstay migrate catalogs --dry-run

  # Create the ClusterCatalogs for all CatalogSources
  mainstay migrate catalogs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, o) },
	}

	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "only CatalogSources of this namespace (default: all namespaces)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be created and change nothing")
	f.out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	terminal.StripControlCharacters(cmd)
	return cmd
}

func (f *catalogsFlags) run(cmd *cobra.Command, o Options) error {
	_, c, err := newClient(o)
	if err != nil {
		return err
	}

	m := &migration.MigrateCatalogs{Client: c, Progress: terminal.NewProgress(cmd.ErrOrStderr()), Namespace: f.namespace, DryRun: f.dryRun}
	plans, runErr := m.Run(cmd.Context())
	if plans == nil && runErr != nil {
		return runErr
	}
	if err := f.writeCatalogs(cmd, plans); err != nil {
		return err
	}
	return runErr
}

// writeCatalogs writes what becomes of the CatalogSources in the requested format.
func (f *catalogsFlags) writeCatalogs(cmd *cobra.Command, plans []plan.CatalogPlan) error {
	if f.out.Format != "" {
		return terminal.PrintValue(cmd.OutOrStdout(), f.out.Format, plans)
	}

	rows := make([][]string, 0, len(plans))
	for _, p := range plans {
		catalog, notes := p.Catalog, strings.Join(p.Notes, "; ")
		if catalog == "" {
			catalog = "-"
		}
		if notes == "" {
			notes = "-"
		}
		rows = append(rows, []string{string(p.Action), p.Source, catalog, notes})
	}
	return terminal.PrintTable(cmd.OutOrStdout(), []string{"ACTION", "CATALOGSOURCE", "CLUSTERCATALOG", "NOTES"}, rows)
}
