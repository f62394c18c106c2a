package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// bindRegistry adds the flags that say how registries are reached.
func bindRegistry(cmd *cobra.Command, registry *action.Registry) {
	flags := cmd.Flags()
	flags.StringVar(&registry.AuthFile, "authfile", "", "file with logins for registries (default: those of podman and docker)")
	flags.StringVar(&registry.RegistriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (default: that of the machine)")
	flags.StringVar(&registry.SignaturePolicy, "signature-policy", "", "file that says which images are trusted (default: that of the machine)")
	flags.StringVar(&registry.CertsDir, "cert-dir", "", "folder with a folder HOST[:PORT] of certificates for each registry (default: that of the machine)")
}

func (a *app) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bundle",
		Aliases: []string{"bundles"},
		Short:   "Push bundles to a registry",
		Args:    cobra.ArbitraryArgs,
		RunE:    group,
	}
	cmd.AddCommand(bundlePushCommand())
	return cmd
}

func bundlePushCommand() *cobra.Command {
	var (
		push action.BundlePush
		out  output
	)
	cmd := &cobra.Command{
		Use:   "push DIR REF",
		Short: "Check a bundle, make an image of it, and push it",
		Long: `Check the bundle in a folder, make an image of it, without a container engine, and push
it. The reference of the pushed image, with its digest, is written.`,
		Example: `  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0
  mainstay bundle push ./bundle registry.example.com/argocd-operator:v0.6.0 -o json`,
		Args: takes("DIR", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			push.Progress = newProgress(cmd.ErrOrStderr())
			push.Dir, push.Ref = args[0], args[1]
			pushed, err := push.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.format == formatJSON || out.format == formatYAML {
				return printValue(cmd.OutOrStdout(), out.format, pushed)
			}
			fmt.Fprintln(cmd.OutOrStdout(), pushed.Reference)
			return nil
		},
	}
	bindRegistry(cmd, &push.Registry)
	out.bind(cmd, formatJSON, formatYAML, formatName)
	return cmd
}

func catalogBuildCommand() *cobra.Command {
	var (
		build action.CatalogBuild
		out   output
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
		Args: takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			build.Progress = newProgress(cmd.ErrOrStderr())
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
	bindRegistry(cmd, &build.Registry)
	out.bindAs(cmd, "format", formatJSON, formatYAML, formatName)
	return cmd
}

// printBuilt prints a catalog that was built. A dry run of bundles prints the content.
func printBuilt(cmd *cobra.Command, build *action.CatalogBuild, out *output, built *action.BuiltCatalog) error {
	w := cmd.OutOrStdout()
	switch {
	case build.DryRun && len(built.Blobs) > 0:
		for _, blob := range built.Blobs {
			if err := printBlob(w, out.format, blob); err != nil {
				return err
			}
		}
		return nil
	case out.format == formatJSON || out.format == formatYAML:
		return printValue(w, out.format, built)
	case built.Reference != "":
		fmt.Fprintln(w, built.Reference)
	default:
		fmt.Fprintln(w, built.Digest)
	}
	return nil
}
