package opm

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// defaultOpmImage is what images of catalogs are built on, unless something else is named.
const defaultOpmImage = "quay.io/operator-framework/opm:latest"

func generateCommand() *cobra.Command {
	return group("generate", "Make Dockerfiles of catalogs", generateDockerfileCommand())
}

func generateDockerfileCommand() *cobra.Command {
	var (
		generate authoring.GenerateDockerfile
		build    catalogs.CatalogImage
		delivery deliveryFlags
		binary   string
		tag      string
	)

	cmd := &cobra.Command{
		Use:   "dockerfile DIR",
		Short: "Make a Dockerfile, or the image itself, of a file-based catalog",
		Long: `Make a Dockerfile for the image of a file-based catalog: DIR.Dockerfile, beside the
folder.

With --push, --archive or --oci-layout the image itself is made, without a container
engine and without a Dockerfile. It has this program, which serves the catalog, unless
--base-image names another image to build on, or scratch.`,
		Example: `  opm generate dockerfile ./catalog
  opm generate dockerfile ./catalog -i registry.redhat.io/openshift4/ose-operator-registry-rhel9:v4.19
  opm generate dockerfile ./catalog -t registry.example.com/catalog:v1 --push`,
		Args: terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if binary != "" {
				cmd.PrintErrln("Flag --binary-image has been deprecated, use --base-image instead")
				generate.BaseImage = binary
				if !cmd.Flags().Changed("builder-image") {
					generate.BuilderImage = binary
				}
			}

			generate.Dir = args[0]
			var err error
			if build.Delivery, err = delivery.read(tag); err != nil {
				return err
			}
			if build.Delivery.Nowhere() {
				_, err := generate.Run(cmd.Context())
				return err
			}
			if build.Labels, err = labelsOf(generate.Labels); err != nil {
				return err
			}
			if binary != "" || cmd.Flags().Changed("base-image") {
				build.Base = generate.BaseImage
			}

			build.Dir, build.Program = args[0], thisProgram()
			build.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			reference, err := build.Run(cmd.Context())

			return printReference(cmd, reference, err)
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&generate.BaseImage, "base-image", "i", defaultOpmImage, "image that the catalog's is built on")
	flags.StringVarP(&generate.BuilderImage, "builder-image", "b", defaultOpmImage, "image that makes the cache of the catalog")
	flags.StringVar(&binary, "binary-image", "", "image that the catalog's is built on")
	_ = flags.MarkHidden("binary-image") // the flag was just added
	cmd.MarkFlagsMutuallyExclusive("binary-image", "base-image")
	flags.StringSliceVarP(&generate.Labels, "extra-labels", "l", nil, "further labels of the image, as KEY=VALUE, separated by commas; may be repeated")
	flags.StringVarP(&tag, "tag", "t", "", "what the image is called")
	delivery.bind(cmd)
	BindRegistry(cmd, &build.Registry)

	return cmd
}

// labelsOf reads labels that are written as key=value.
func labelsOf(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &terminal.UsageError{Err: fmt.Errorf("invalid label %q", text)}
		}
		labels[key] = value
	}

	return labels, nil
}
