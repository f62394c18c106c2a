package catalog

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/site"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/web"
)

func newSiteCommand() *cobra.Command {
	var write site.Write
	cmd := &cobra.Command{
		Use:   "site CATALOG -o DIR",
		Short: "Write a catalog as a static web site",
		Long: `Write a catalog as a static web site with a search, filters, and a page for each package: its description,
versions, upgrade graph, APIs and examples, and the YAML that installs it with OLM v1 and OLM Classic.

Any web server can serve the files, at any path. They load nothing from other servers. The same catalog
makes the same files. Packages with invalid content, and icons that contain scripts, are left out with a
warning.

` + opm.CatalogSourcesHelp,
		Example: `  mainstay catalog site ./catalog -o ./site
  mainstay catalog site quay.io/operatorhubio/catalog:latest -o ./site --title "Our operators"

  # Subscriptions of the site name this CatalogSource
  mainstay catalog site clustercatalog/operatorhub -o ./site --catalog-source olm/operatorhub`,
		Args: terminal.ExactArgs("CATALOG"),
	}

	load := opm.NewCatalogReader(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&write.Dir, "output-dir", "o", "", "directory to write; it must not exist, or be empty")
	flags.StringVar(&write.Name, "name", "", "name of the catalog (default: the last part of CATALOG)")
	flags.StringVar(&write.Title, "title", "", "heading of the site (default: the name of the catalog)")
	flags.StringVar(&write.CatalogSource, "catalog-source", "", "CatalogSource for Subscriptions, as NAMESPACE/NAME (default: olm/NAME)")
	_ = cmd.MarkFlagRequired("output-dir") // the flag was just added
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		write.Metas, write.Assets = load(cmd.Context(), args[0]), web.Site()
		write.Name = cmp.Or(write.Name, nameOfCatalog(args[0]))
		written, err := write.Run(cmd.Context())
		if err != nil {
			return err
		}

		for _, problem := range written.Problems {
			fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", problem)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d packages\n", filepath.Join(write.Dir, "index.html"), written.Packages)
		return nil
	}

	return cmd
}

// nameOfCatalog returns the last part of a reference to a catalog, without tag and digest.
func nameOfCatalog(ref string) string {
	if absolute, err := filepath.Abs(ref); err == nil && !strings.Contains(ref, ":") && !strings.Contains(ref, "@") {
		ref = filepath.ToSlash(absolute)
	}
	return path.Base(catalogs.RepositoryOf(ref))
}
