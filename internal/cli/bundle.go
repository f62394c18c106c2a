package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/publish"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bundle",
		Aliases: []string{"bundles"},
		Short:   "Push bundles to a registry",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.Group,
	}

	cmd.AddCommand(bundlePushCommand())
	return cmd
}

func bundlePushCommand() *cobra.Command {
	var (
		push publish.BundlePush
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "push DIR REF",
		Short: "Check a bundle, make an image of it, and push it",
		Long: `Check the bundle in a folder, make an image of it, without a container engine, and push
it. The reference of the pushed image, with its digest, is written.`,
		Example: `  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0
  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0 -o json`,
		Args: terminal.Takes("DIR", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			push.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			push.Dir, push.Ref = args[0], args[1]
			pushed, err := push.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format == terminal.FormatJSON || out.Format == terminal.FormatYAML {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, pushed)
			}

			fmt.Fprintln(cmd.OutOrStdout(), pushed.Reference)
			return nil
		},
	}

	opm.BindRegistry(cmd, &push.Registry)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func catalogBuildCommand() *cobra.Command {
	var (
		build publish.CatalogBuild
		out   terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Make a catalog image from a file-based catalog or from bundles",
		Long: `Make a catalog image, without a container engine, and push it.

DIR is a file-based catalog, or a folder of bundles: any folders below it that have a
metadata/annotations.yaml. Bundles are pushed first, each to a repository of its package
below that of the catalog, and the catalog is made of them: the channels that they name,
with the upgrade edges of their ClusterServiceVersions.`,
		Example: `  # Make a catalog of bundles, and push both
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1

  # Push the bundles elsewhere
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1 --bundle-repo registry.example.com/bundles

  # Look at the catalog that would be made
  mainstay catalog build ./bundles --push registry.example.com/catalog:v1 --dry-run -o yaml

  # Write an archive for 'ctr images import' or 'podman load'
  mainstay catalog build ./catalog --output catalog.tar`,
		Args: terminal.Takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			build.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			build.Dir = args[0]
			built, err := build.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printBuilt(cmd, &build, &out, built)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&build.Push, "push", "", "reference to push the catalog's image to")
	flags.StringVar(&build.Output, "output", "", "file to write the image to, as an OCI archive")
	flags.StringVar(&build.BundleRepo, "bundle-repo", "", "repository below which bundles are pushed (default: that of --push)")
	flags.BoolVar(&build.DryRun, "dry-run", false, "push and write nothing; print the catalog that is made of bundles")
	opm.BindRegistry(cmd, &build.Registry)
	out.BindAs(cmd, "format", terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printBuilt prints a catalog that was built. A dry run of bundles prints the content.
func printBuilt(cmd *cobra.Command, build *publish.CatalogBuild, out *terminal.Output, built *publish.BuiltCatalog) error {
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
