package opm

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/authoring"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// defaultOpmImage is the default base image of catalog images.
const defaultOpmImage = "quay.io/operator-framework/opm:latest"

func newGenerateCommand() *cobra.Command {
	return newCommandGroup("generate", "Generate Dockerfiles of catalogs", newGenerateDockerfileCommand())
}

func newGenerateDockerfileCommand() *cobra.Command {
	var (
		generate authoring.GenerateDockerfile
		build    catalogs.CatalogImage
		delivery deliveryFlags
		binary   string
		tag      string
	)

	cmd := &cobra.Command{
		Use:   "dockerfile DIR",
		Short: "Generate the Dockerfile of a file-based catalog, or build its image",
		Long: `Generate the Dockerfile for the image of a file-based catalog. It is written to DIR.Dockerfile next
to the directory.

With --push, --archive or --oci-layout, the image is built without a container engine and without a
Dockerfile. It contains this program to serve the catalog, unless --base-image specifies a base image
or scratch.`,
		Example: `  opm generate dockerfile ./catalog
  opm generate dockerfile ./catalog -i registry.redhat.io/openshift4/ose-operator-registry-rhel9:v4.19
  opm generate dockerfile ./catalog -t registry.example.com/catalog:v1 --push`,
		Args: cobra.ExactArgs(1),
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
			if build.Delivery, err = delivery.toDelivery(tag); err != nil {
				return err
			}
			if build.Delivery.IsEmpty() {
				_, err := generate.Run(cmd.Context())
				return err
			}
			if build.Labels, err = parseLabels(generate.Labels); err != nil {
				return err
			}
			if binary != "" || cmd.Flags().Changed("base-image") {
				build.Base = generate.BaseImage
			}

			build.Dir, build.Program = args[0], currentExecutable()
			build.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			reference, err := build.Run(cmd.Context())

			return printImageReference(cmd, reference, err)
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&generate.BaseImage, "base-image", "i", defaultOpmImage, "base image of the catalog image")
	flags.StringVarP(&generate.BuilderImage, "builder-image", "b", defaultOpmImage, "image that builds the cache of the catalog")
	flags.StringVar(&binary, "binary-image", "", "base image of the catalog image")
	_ = flags.MarkHidden("binary-image") // the flag was just added
	cmd.MarkFlagsMutuallyExclusive("binary-image", "base-image")
	flags.StringSliceVarP(&generate.Labels, "extra-labels", "l", nil, "additional labels of the image, as KEY=VALUE, separated by commas; can be repeated")
	terminal.ValidateFlag(cmd, "extra-labels", func() error {
		_, err := parseLabels(generate.Labels)
		return err
	})
	flags.StringVarP(&tag, "tag", "t", "", "reference of the image")
	delivery.addFlags(cmd)
	AddRegistryFlags(cmd, &build.Registry)

	return cmd
}

// parseLabels parses labels of the form key=value.
func parseLabels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &terminal.UsageError{Err: fmt.Errorf("invalid label %q", text), Advice: "write the labels of --extra-labels as KEY=VALUE, separated by commas"}
		}
		labels[key] = value
	}

	return labels, nil
}
