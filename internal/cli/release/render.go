package release

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// errTwoReleaseSources is returned if a release is specified in two ways.
var errTwoReleaseSources = errors.New("specify the release either by its image or with --payload-dir, not both")

func newRenderCommand(session *kube.Session) *cobra.Command {
	var render releases.Render
	cmd := &cobra.Command{
		Use:   "render [IMAGE|VERSION]",
		Short: "Render the bootstrap manifests of a release",
		Long: `Render the manifests that are required to bootstrap a cluster from a release.

The directory manifests receives the manifests of cluster-version-operator and the manifests of
other components that configure which images are trusted. The directory bootstrap receives the
manifests that run the operator before there is a cluster. Manifests that the cluster would not
apply are omitted, and so are the manifests of the operator that require monitoring. The operator
applies all other manifests itself.

Inside a release image, use --payload-dir to read the payload of the image, and --release-image to
specify the release.`,
		Example: `  # Render a release in a registry
  mainstay release render registry.example.com/releases:1.1.0 --output-dir ./render

  # Inside a release image, render for the capabilities of a ClusterVersion
  mainstay release render --payload-dir / --release-image registry.example.com/releases@sha256:3d0e… --cluster-version-manifest-path cluster-version.yaml --output-dir /assets`,
		Args: terminal.MaximumArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := firstArgument(args); name != "" {
				if render.Image != "" || render.PayloadDir != "" {
					return &terminal.UsageError{Err: errTwoReleaseSources}
				}
				render.Image = name
			}

			render.Profile = cmp.Or(render.Profile, os.Getenv("CLUSTER_PROFILE"))
			rendered, err := render.Run(cmd.Context())
			if err != nil {
				return err
			}

			fmt.Fprintf(cmd.OutOrStdout(), "Rendered %d files of release %s into %s\n", len(rendered.Files), rendered.Version, render.To)
			return nil
		},
	}

	addReleaseSourceFlags(session, cmd, &render.Source)
	flags := cmd.Flags()
	flags.StringVar(&render.To, "output-dir", "", "directory to write to")
	flags.StringVar(&render.Image, "release-image", "", "the release, as an alternative to the argument; with --payload-dir, the image reference for the manifests")
	flags.StringVar(&render.PayloadDir, "payload-dir", "", "directory with the payload, such as / inside a release image (default: the payload is pulled from the registry)")
	flags.StringVar(&render.Profile, "profile", "", "profile of the cluster (default: $CLUSTER_PROFILE, else self-managed-high-availability)")
	flags.StringVar(&render.ClusterVersionFile, "cluster-version-manifest-path", "", "file with the ClusterVersion of the cluster; its capabilities and overrides are honored")
	flags.StringVar(&render.FeatureGateFile, "feature-gate-manifest-path", "", "file with the FeatureGate of the cluster")

	return cmd
}

func newImageCommand(session *kube.Session) *cobra.Command {
	var find releases.FindImage
	cmd := &cobra.Command{
		Use:   "image NAME",
		Short: "Show the pull spec of an image of a release",
		Long: `Show the pull spec, by digest, of an image of a release.

Without --from, the release of the cluster is used. Inside a release image, use --payload-dir to
read the payload of the image without network access.`,
		Example: `  # Show an image of a release in a registry
  mainstay release image console --from registry.example.com/releases:1.1.0

  # Inside a release image
  mainstay release image console --payload-dir /`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if find.Image != "" && find.PayloadDir != "" {
				return &terminal.UsageError{Err: errTwoReleaseSources}
			}
			find.Name = args[0]
			return printImagePullSpec(cmd, &find)
		},
	}

	addReleaseSourceFlags(session, cmd, &find.Source)
	flags := cmd.Flags()
	flags.StringVar(&find.Image, "from", "", "the release, by image or version")
	flags.StringVar(&find.PayloadDir, "payload-dir", "", "directory with the payload, such as / inside a release image")

	return cmd
}

// printImagePullSpec prints the pull spec of an image of a release.
func printImagePullSpec(cmd *cobra.Command, find *releases.FindImage) error {
	pullSpec, err := find.Run(cmd.Context())
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), pullSpec)
	}
	return err
}
