package opm

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/action/bundleconfigmap"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/bundle/configmap"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
)

// envImage is the environment variable for the bundle image in the unpack Jobs of OLM Classic.
const envImage = "CONTAINER_IMAGE"

func newBundleExtractCommand() *cobra.Command {
	var (
		cluster kubeconfig.Flags
		write   bundleconfigmap.Write
		dir     string
	)
	cmd := &cobra.Command{
		Use:   "extract",
		Short: "Write a bundle to a ConfigMap",
		Long: `Write the manifests and the metadata of an unpacked bundle to an existing ConfigMap, as the unpack
Jobs of OLM do. The environment variable CONTAINER_IMAGE specifies the image of the bundle.`,
		Example: `  opm alpha bundle extract -m /bundle/ -n olm -c kettle`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fsys, done, err := catalogs.OpenFolder(dir)
			if err != nil {
				return fmt.Errorf("error loading manifests from directory: %w", err)
			}
			defer done()
			if write.Config, err = cluster.Config(); err != nil {
				return err
			}

			write.Bundle, write.Image = fsys, os.Getenv(envImage)
			if err := write.Run(cmd.Context()); err != nil {
				return fmt.Errorf("error loading manifests from directory: %w", err)
			}

			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&write.Name, "configmapname", "c", "", "name of the ConfigMap")
	flags.StringVarP(&write.Namespace, "namespace", "n", "openshift-operator-lifecycle-manager", "namespace of the ConfigMap")
	flags.StringVarP(&dir, "manifestsdir", "m", "/", "directory that contains the directories manifests and metadata")
	flags.Uint64VarP(&write.Limit, "datalimit", "l", configmap.MaxBytes, "maximum size of the ConfigMap data in bytes")
	flags.BoolVarP(&write.Gzip, "gzip", "z", false, "compress the files with gzip")
	flags.Bool("debug", false, "enable debug logging")
	_ = cmd.MarkFlagRequired("configmapname") // the flag was just added
	// The flag has a short name here.
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	cluster.AddFlags(shared)
	shared.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "kubeconfig" {
			flag.Shorthand = "k"
		}
		if flags.Lookup(flag.Name) == nil {
			flags.AddFlag(flag)
		}
	})

	return cmd
}
