package opm

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/action/bundleconfigmap"
	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/bundle/configmap"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// envImage names the image whose content is extracted, in the Job that OLM Classic runs.
const envImage = "CONTAINER_IMAGE"

func bundleExtractCommand() *cobra.Command {
	var (
		cluster kubeconfig.Flags
		write   bundleconfigmap.Write
		dir     string
	)
	cmd := &cobra.Command{
		Use:   "extract",
		Short: "Put a bundle into a ConfigMap",
		Long: `Put the manifests and the metadata of an unpacked bundle into a ConfigMap that exists, as
the Jobs of OLM do. The image that the bundle is of is taken from $CONTAINER_IMAGE.`,
		Example: `  opm alpha bundle extract -m /bundle/ -n olm -c kettle`,
		Args:    terminal.Usage(cobra.NoArgs),
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
	flags.StringVarP(&dir, "manifestsdir", "m", "/", "folder that has the folders manifests and metadata")
	flags.Uint64VarP(&write.Limit, "datalimit", "l", configmap.MaxBytes, "most bytes that the ConfigMap may hold")
	flags.BoolVarP(&write.Gzip, "gzip", "z", false, "store the files compressed")
	flags.Bool("debug", false, "say more")
	_ = cmd.MarkFlagRequired("configmapname") // the flag was just added
	// The flag has a short name here.
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	cluster.Bind(shared)
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
