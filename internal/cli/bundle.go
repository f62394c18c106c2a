package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/publish"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newBundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bundle",
		Aliases: []string{"bundles"},
		Short:   "Validate bundles and push them to a registry",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	cmd.AddCommand(newBundlePushCommand())
	return cmd
}

func newBundlePushCommand() *cobra.Command {
	var (
		push publish.BundlePush
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "push DIR REF",
		Short: "Validate a bundle and push it as an image",
		Long: `Validate the bundle in a directory, build an image of it and push the image to a registry.

No container engine is required. The command prints the reference of the pushed image by digest.`,
		Example: `  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0
  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0 -o json`,
		Args: terminal.ExactArgs("DIR", "REF"),
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

	opm.AddRegistryFlags(cmd, &push.Registry)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func newCatalogBuildCommand() *cobra.Command {
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
