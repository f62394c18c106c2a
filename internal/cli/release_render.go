package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// errTwoPayloads is about a release that is named in two ways.
var errTwoPayloads = errors.New("the release is in its registry or in a folder: name one of them")

func (a *app) releaseRenderCommand() *cobra.Command {
	var render releases.Render
	cmd := &cobra.Command{
		Use:   "render [IMAGE|VERSION]",
		Short: "Write what a machine needs that makes a cluster from a release",
		Long: `Write what a machine needs that makes a cluster from a release.

Into the folder manifests go those of the operator that applies the release, and those of
other components that say which images are trusted; into bootstrap what runs the operator
before there is a cluster. Manifests that the cluster would not have are left out, and so are
those of the operator that need monitoring. Everything else the operator applies itself.

Inside of a release image, --payload-dir reads the payload that lies there, and
--release-image says which release it is.`,
		Example: `  # Of a release in a registry
  mainstay release render registry.example.com/releases:1.1.0 --output-dir ./render

  # Inside of the release image, for a cluster with some capabilities
  mainstay release render --payload-dir / --release-image registry.example.com/releases@sha256:3d0e… --cluster-version-manifest-path cluster-version.yaml --output-dir /assets`,
		Args: terminal.TakesUpTo(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := argument(args); name != "" {
				if render.Image != "" || render.PayloadDir != "" {
					return &terminal.UsageError{Err: errTwoPayloads}
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

	a.bindSource(cmd, &render.Source)
	flags := cmd.Flags()
	flags.StringVar(&render.To, "output-dir", "", "folder to write to")
	flags.StringVar(&render.Image, "release-image", "", "the release, instead of as an argument; with --payload-dir what manifests call it")
	flags.StringVar(&render.PayloadDir, "payload-dir", "", "folder with the payload, as / inside of a release image (default: it is read from its registry)")
	flags.StringVar(&render.Profile, "profile", "", "profile of the cluster (default: $CLUSTER_PROFILE, else self-managed-high-availability)")
	flags.StringVar(&render.ClusterVersionFile, "cluster-version-manifest-path", "", "file with the ClusterVersion of the cluster, whose capabilities and overrides count")
	flags.StringVar(&render.FeatureGateFile, "feature-gate-manifest-path", "", "file with the FeatureGate of the cluster")

	return cmd
}

func (a *app) releaseImageCommand() *cobra.Command {
	var find releases.FindImage
	cmd := &cobra.Command{
		Use:   "image NAME",
		Short: "Show where an image of a release is",
		Long: `Show where an image of a release is, by digest.

Without --from it is the release of the cluster. Inside of a release image, --payload-dir
reads the payload that lies there, without any network.`,
		Example: `  # Of a release in a registry
  mainstay release image console --from registry.example.com/releases:1.1.0

  # Inside of the release image
  mainstay release image console --payload-dir /`,
		Args: terminal.Takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if find.Image != "" && find.PayloadDir != "" {
				return &terminal.UsageError{Err: errTwoPayloads}
			}
			find.Name = args[0]
			return printImage(cmd, &find)
		},
	}

	a.bindSource(cmd, &find.Source)
	flags := cmd.Flags()
	flags.StringVar(&find.Image, "from", "", "the release, by its image or its version")
	flags.StringVar(&find.PayloadDir, "payload-dir", "", "folder with the payload, as / inside of a release image")

	return cmd
}

// printImage shows where an image of a release is.
func printImage(cmd *cobra.Command, find *releases.FindImage) error {
	pullSpec, err := find.Run(cmd.Context())
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), pullSpec)
	}
	return err
}
