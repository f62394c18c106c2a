package catalog

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/publish"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newBuildCommand() *cobra.Command {
	var (
		build publish.CatalogBuild
		out   terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Build a catalog image from a file-based catalog or from bundles",
		Long: `Build a catalog image and push it to a registry. No container engine is required.

DIR is a file-based catalog or a directory of bundles. Every subdirectory that contains
metadata/annotations.yaml is a bundle. Bundles are pushed first, each to a repository named
after its package below the repository of the catalog. The catalog is then generated from the
bundles: it contains the channels that they name and the upgrade edges that their
ClusterServiceVersions declare.`,
		Example: `  # Build a catalog from bundles and push both
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1

  # Push the bundles to a different repository
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1 --bundle-repo registry.example.com/bundles

  # Print the catalog that would be built
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1 --dry-run -o yaml

  # Write an OCI archive for 'ctr images import' or 'podman load'
  mainstay catalog build ./catalog --output catalog.tar`,
		Args: terminal.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			build.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			build.Dir = args[0]
			built, err := build.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printBuiltCatalog(cmd, &build, &out, built)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&build.Push, "push", "", "reference to push the catalog image to")
	flags.StringVar(&build.Output, "output", "", "file to write the image to, as an OCI archive")
	flags.StringVar(&build.BundleRepo, "bundle-repo", "", "parent repository for the bundle images (default: the repository of --push)")
	flags.BoolVar(&build.DryRun, "dry-run", false, "do not push or write anything; print the catalog that would be generated from bundles")
	opm.AddRegistryFlags(cmd, &build.Registry)
	out.AddFlagAs(cmd, "format", terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printBuiltCatalog prints the reference or digest of a built catalog. A dry run that generates the
// catalog from bundles prints its content.
func printBuiltCatalog(cmd *cobra.Command, build *publish.CatalogBuild, out *terminal.Output, built *publish.BuiltCatalog) error {
	w := cmd.OutOrStdout()
	switch {
	case build.DryRun && len(built.Blobs) > 0:
		return built.Write(cmd.Context(), opm.CatalogFormat(out.Format), w)
	case out.Format == terminal.FormatJSON || out.Format == terminal.FormatYAML:
		return terminal.PrintValue(w, out.Format, built)
	case built.Reference != "":
		fmt.Fprintln(w, built.Reference)
	default:
		fmt.Fprintln(w, built.Digest)
	}

	return nil
}
