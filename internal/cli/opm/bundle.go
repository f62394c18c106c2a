package opm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newBundleCommand() *cobra.Command {
	return newCommandGroup("bundle", "Generate, build, validate and unpack bundles",
		newBundleGenerateCommand(), newBundleBuildCommand(), newBundleValidateCommand(),
		newBundleUnpackCommand(), newBundleExtractCommand(),
	)
}

// addGenerateFlags adds the flags that describe the bundle to generate.
func addGenerateFlags(cmd *cobra.Command, generate *authoring.GenerateBundle) {
	flags := cmd.Flags()
	flags.StringVarP(&generate.Directory, "directory", "d", "", "directory of the manifests")
	flags.StringVarP(&generate.Package, "package", "p", "", "name of the package (default: the name in the package manifest of the parent directory)")
	flags.StringVarP(&generate.Channels, "channels", "c", "", "channels of the bundle, separated by commas (default: the channels in the package manifest of the parent directory)")
	flags.StringVarP(&generate.DefaultChannel, "default", "e", "", "default channel of the package")
	flags.StringVarP(&generate.OutputDir, "output-dir", "u", "", "directory to write the bundle to (default: the manifests are used in place)")
	flags.StringVar(&generate.BaseImage, "base-image", "scratch", "base image of the bundle image")
	markFlagsRequired(cmd, "directory")
}

func newBundleGenerateCommand() *cobra.Command {
	var generate authoring.GenerateBundle
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Generate the annotations and the Dockerfile of a bundle",
		Long: `Generate the annotations and the Dockerfile that turn a directory of manifests into a bundle. The
annotations are written to metadata/annotations.yaml next to that directory, and the Dockerfile to
bundle.Dockerfile in the current directory.`,
		Example: `  opm alpha bundle generate -d ./0.1.0/manifests -p kettle -c stable,beta -e stable
  opm alpha bundle generate -d ./0.1.0 -p kettle -c stable -u ./bundle`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			generate.Overwrite = true
			generate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			_, err := generate.Run(cmd.Context())
			return err
		},
	}

	addGenerateFlags(cmd, &generate)
	return cmd
}

func newBundleBuildCommand() *cobra.Command {
	var (
		build    catalogs.BundleImage
		generate authoring.GenerateBundle
		delivery deliveryFlags
	)
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a bundle image",
		Long: `Build a bundle image. The annotations and the Dockerfile are generated as by "generate", and a
container engine builds the image.

With --push, --archive or --oci-layout, the image is built without a container engine.`,
		Example: `  opm alpha bundle build -d ./0.1.0/manifests -p kettle -c stable -e stable -t registry.example.com/kettle:v0.1.0 --push
  opm alpha bundle build -d ./0.1.0/manifests -p kettle -c stable -e stable -t registry.example.com/kettle:v0.1.0 -b podman`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if build.Delivery, err = delivery.toDelivery(build.Tag); err != nil {
				return err
			}

			generate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			generated, err := generate.Run(cmd.Context())
			if err != nil {
				return err
			}

			build.Progress, build.EngineOutput = generate.Progress, cmd.ErrOrStderr()
			build.Manifests, build.Metadata, build.Dockerfile = generated.Manifests, generated.Metadata, filepath.Base(generated.Dockerfile)
			build.Description, build.Base = generated.Description, generate.BaseImage
			reference, err := build.Run(cmd.Context())

			return printImageReference(cmd, reference, err)
		},
	}

	addGenerateFlags(cmd, &generate)
	flags := cmd.Flags()
	flags.StringVarP(&build.Tag, "tag", "t", "", "reference of the image")
	flags.StringVarP(&build.Engine, "image-builder", "b", "docker", "tool that builds the image: docker|podman|buildah")
	terminal.ValidateFlag(cmd, "image-builder", func() error {
		if slices.Contains([]string{"docker", "podman", "buildah"}, build.Engine) {
			return nil
		}
		return &terminal.UsageError{
			Err:    fmt.Errorf("%s is not supported image builder", build.Engine),
			Advice: "set --image-builder to docker, podman or buildah, or build without a container engine with --push, --archive or --oci-layout",
		}
	})
	flags.BoolVarP(&generate.Overwrite, "overwrite", "o", false, "replace existing annotations (default: existing annotations must be identical)")
	markFlagsRequired(cmd, "tag")
	delivery.addFlags(cmd)
	AddRegistryFlags(cmd, &build.Registry)

	return cmd
}

// envCategories is the environment variable for a file with the valid operator categories.
const envCategories = "OPERATOR_BUNDLE_CATEGORIES"

// Supported keys of --optional-values.
const (
	valueContainerTools = "container-tools"
	valueKubeVersion    = "k8s-version"
)

func newBundleValidateCommand() *cobra.Command {
	var (
		open     catalogs.OpenBundle
		check    = authoring.ValidateBundle{CategoriesFile: os.Getenv(envCategories)}
		optional string
		values   map[string]string
		list     bool
	)

	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Validate the format and the content of a bundle",
		Long: `Validate the format and the content of a bundle: an image, or a directory with manifests and
metadata. The labels of an image are compared with metadata/annotations.yaml.

Use --optional-validators to run additional validators; --list-optional lists them. The validator
multiarch reads the platforms of the images of the bundle from their registries; no container tool is
required. The environment variable OPERATOR_BUNDLE_CATEGORIES can name a file with the valid
categories of operators.`,
		Example: `  opm alpha bundle validate -t registry.example.com/kettle:v0.1.0
  opm alpha bundle validate -t ./bundle -o operatorhub
  opm alpha bundle validate -t ./bundle -o multiarch
  opm alpha bundle validate --list-optional`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return printOptionalValidators(cmd)
			}
			if !cmd.Flags().Changed("tag") {
				return &terminal.UsageError{Err: errors.New(`required flag(s) "tag" not set`)}
			}

			open.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			check.Optional = validate.ParseOptional(optional)
			check.ContainerTools, check.KubeVersion = values[valueContainerTools], values[valueKubeVersion]
			check.Inspect = (&catalogs.InspectImages{Registry: open.Registry, Progress: open.Progress}).Run

			return open.Run(cmd.Context(), func(opened catalogs.OpenedBundle) error {
				check.Bundle, check.IsImage, check.Labels = opened.Files, opened.IsImage, opened.Labels
				findings, err := check.Run(cmd.Context())
				if err != nil {
					return err
				}

				reportWarnings(open.Progress, findings)
				return findings.Err()
			})
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&open.Ref, "tag", "t", "", "bundle to validate: an image or a directory")
	flags.StringP("image-builder", "b", "docker", "ignored, for compatibility: images are pulled without a container tool")
	flags.StringVarP(&optional, "optional-validators", "o", "", "additional validators, separated by commas; see --list-optional")
	flags.StringToStringVar(&values, "optional-values", nil, "values for additional validators, as `key=value`: "+
		valueKubeVersion+"=1.25, the Kubernetes version that the bundle is validated for; "+valueContainerTools+"=docker|podman, ignored, for compatibility")
	terminal.ValidateFlag(cmd, "optional-values", func() error {
		version, isSet := values[valueKubeVersion]
		if !isSet {
			return nil
		}
		if err := authoring.ValidateKubeVersion(version); err != nil {
			return &terminal.UsageError{Err: err, Advice: "set " + valueKubeVersion + " of --optional-values to a version such as 1.25"}
		}
		return nil
	})
	flags.BoolVar(&list, "list-optional", false, "list the additional validators without validating")
	AddRegistryFlags(cmd, &open.Registry)
	markDeprecated(cmd, "it will be removed in a future release: migrate to operator-sdk's 'bundle validate'.")

	return cmd
}

// printOptionalValidators prints the additional validators.
func printOptionalValidators(cmd *cobra.Command) error {
	rows := [][]string{{"NAME", "CHECKS"}}
	for _, v := range validate.Optional() {
		rows = append(rows, []string{v.Name, v.About})
	}
	return printColumns(cmd.OutOrStdout(), rows...)
}

func reportWarnings(progress report.Progress, findings validate.Findings) {
	for _, finding := range findings {
		if finding.Level == validate.Warning {
			progress.Warn(strings.TrimPrefix(finding.Text, "Warning: "))
		}
	}
}

// validateUnpackedBundle returns an error if a bundle is not valid. It is called before the bundle is
// written.
func validateUnpackedBundle(ctx context.Context, fsys fs.FS) error {
	check := authoring.ValidateBundle{Bundle: fsys, CategoriesFile: os.Getenv(envCategories)}
	findings, err := check.Run(ctx)
	if err != nil {
		return err
	}

	var invalid *validate.InvalidError
	if err := findings.Err(); errors.As(err, &invalid) {
		part := "content"
		if invalid.Format {
			part = "format"
		}
		return fmt.Errorf("bundle %s validation failed: %w", part, err)
	}

	return nil
}
