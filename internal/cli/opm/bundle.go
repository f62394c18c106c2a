package opm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func bundleCommand() *cobra.Command {
	return group("bundle", "Make, check and unpack bundles",
		bundleGenerateCommand(), bundleBuildCommand(), bundleValidateCommand(),
		bundleUnpackCommand(), bundleExtractCommand(),
	)
}

// bindGenerate adds the flags that say what a bundle is.
func bindGenerate(cmd *cobra.Command, generate *authoring.GenerateBundle) {
	flags := cmd.Flags()
	flags.StringVarP(&generate.Directory, "directory", "d", "", "folder of the manifests")
	flags.StringVarP(&generate.Package, "package", "p", "", "name of the package (default: as the package manifest above the folder says)")
	flags.StringVarP(&generate.Channels, "channels", "c", "", "channels that the bundle is in, separated by commas (default: as above)")
	flags.StringVarP(&generate.DefaultChannel, "default", "e", "", "default channel of the package")
	flags.StringVarP(&generate.OutputDir, "output-dir", "u", "", "folder to put the bundle together in (default: the manifests stay where they are)")
	flags.StringVar(&generate.BaseImage, "base-image", "scratch", "image that the bundle's is built on")
	require(cmd, "directory")
}

func bundleGenerateCommand() *cobra.Command {
	var generate authoring.GenerateBundle
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make the annotations and the Dockerfile of a bundle",
		Long: `Make the annotations and the Dockerfile that turn a folder of manifests into a bundle:
metadata/annotations.yaml beside that folder, and bundle.Dockerfile here.`,
		Example: `  opm alpha bundle generate -d ./0.1.0/manifests -p kettle -c stable,beta -e stable
  opm alpha bundle generate -d ./0.1.0 -p kettle -c stable -u ./bundle`,
		Args: terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			generate.Overwrite = true
			generate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			_, err := generate.Run(cmd.Context())
			return err
		},
	}

	bindGenerate(cmd, &generate)
	return cmd
}

func bundleBuildCommand() *cobra.Command {
	var (
		build    catalogs.BundleImage
		generate authoring.GenerateBundle
		delivery deliveryFlags
	)
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Make the image of a bundle",
		Long: `Make the image of a bundle: the annotations and the Dockerfile as "generate" does, and of
these, by a container engine, the image.

With --push, --archive or --oci-layout the image is made without a container engine.`,
		Example: `  opm alpha bundle build -d ./0.1.0/manifests -p kettle -c stable -e stable -t registry.example.com/kettle:v0.1.0 --push
  opm alpha bundle build -d ./0.1.0/manifests -p kettle -c stable -e stable -t registry.example.com/kettle:v0.1.0 -b podman`,
		Args: terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if build.Delivery, err = delivery.read(build.Tag); err != nil {
				return err
			}

			generate.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			made, err := generate.Run(cmd.Context())
			if err != nil {
				return err
			}

			build.Progress, build.EngineOutput = generate.Progress, cmd.ErrOrStderr()
			build.Manifests, build.Metadata, build.Dockerfile = made.Manifests, made.Metadata, filepath.Base(made.Dockerfile)
			build.Description, build.Base = made.Description, generate.BaseImage
			reference, err := build.Run(cmd.Context())

			return printReference(cmd, reference, err)
		},
	}

	bindGenerate(cmd, &generate)
	flags := cmd.Flags()
	flags.StringVarP(&build.Tag, "tag", "t", "", "what the image is called")
	flags.StringVarP(&build.Engine, "image-builder", "b", "docker", "tool that builds the image: docker|podman|buildah")
	flags.BoolVarP(&generate.Overwrite, "overwrite", "o", false, "replace annotations that are there (default: they must say the same)")
	require(cmd, "tag")
	delivery.bind(cmd)
	BindRegistry(cmd, &build.Registry)

	return cmd
}

// envCategories names a file of the categories that an operator may be in.
const envCategories = "OPERATOR_BUNDLE_CATEGORIES"

// Keys of --optional-values that mean something.
const (
	valueContainerTools = "container-tools"
	valueKubeVersion    = "k8s-version"
)

func bundleValidateCommand() *cobra.Command {
	var (
		open     catalogs.OpenBundle
		check    = authoring.ValidateBundle{CategoriesFile: os.Getenv(envCategories)}
		optional string
		values   map[string]string
		list     bool
	)

	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the format and the content of a bundle",
		Long: `Check the format and the content of a bundle: an image, or a folder with manifests and
metadata. Further rules are asked for by name, see --list-optional. Those of multiarch read
the platforms of the bundle's images from their registries; no container tool is needed. The
file that $OPERATOR_BUNDLE_CATEGORIES names has the categories that an operator may be in.`,
		Example: `  opm alpha bundle validate -t registry.example.com/kettle:v0.1.0
  opm alpha bundle validate -t ./bundle -o operatorhub
  opm alpha bundle validate -t ./bundle -o multiarch
  opm alpha bundle validate --list-optional`,
		Args: terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return listOptional(cmd)
			}
			if !cmd.Flags().Changed("tag") {
				return &terminal.UsageError{Err: errors.New(`required flag(s) "tag" not set`)}
			}

			open.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			check.Optional = validate.ParseOptional(optional)
			check.ContainerTools, check.KubeVersion = values[valueContainerTools], values[valueKubeVersion]
			check.Inspect = (&catalogs.InspectImages{Registry: open.Registry, Progress: open.Progress}).Run

			return open.Run(cmd.Context(), func(fsys fs.FS) error {
				check.Bundle = fsys
				findings, err := check.Run(cmd.Context())
				if err != nil {
					return err
				}

				tellWarnings(open.Progress, findings)
				return findings.Err()
			})
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&open.Ref, "tag", "t", "", "the bundle: an image or a folder")
	flags.StringP("image-builder", "b", "docker", "taken for compatibility: images are pulled without a container tool")
	flags.StringVarP(&optional, "optional-validators", "o", "", "further rules, separated by commas: see --list-optional for their names")
	flags.StringToStringVar(&values, "optional-values", nil, "what further rules are told, as `key=value`: "+
		valueKubeVersion+"=1.25, the Kubernetes that the bundle is to run on; "+valueContainerTools+"=docker|podman, taken for compatibility")
	flags.BoolVar(&list, "list-optional", false, "list the further rules, and check nothing")
	BindRegistry(cmd, &open.Registry)
	deprecate(cmd, "it will be removed in a future release: migrate to operator-sdk's 'bundle validate'.")

	return cmd
}

// listOptional prints the rules that can be asked for by name.
func listOptional(cmd *cobra.Command) error {
	rows := [][]string{{"NAME", "CHECKS"}}
	for _, v := range validate.Optional() {
		rows = append(rows, []string{v.Name, v.About})
	}
	return printColumns(cmd.OutOrStdout(), rows...)
}

func tellWarnings(progress report.Progress, findings validate.Findings) {
	for _, finding := range findings {
		if finding.Level == validate.Warning {
			progress.Warn(strings.TrimPrefix(finding.Text, "Warning: "))
		}
	}
}

// checkUnpacked refuses a bundle that is not valid, before it is written.
func checkUnpacked(ctx context.Context, fsys fs.FS) error {
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
