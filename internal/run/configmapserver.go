package run

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/classic/configmapserver"
	"github.com/mainstay-dev/mainstay/internal/classic/registry"
)

// ConfigMapServerName is the name of the program that pods of CatalogSources with a ConfigMap run.
const ConfigMapServerName = "configmap-server"

// NewConfigMapServerCommand returns the command that serves the catalog in a ConfigMap. It has the
// flags of the field's program.
func NewConfigMapServerCommand() *cobra.Command {
	var debug bool
	var port, database string
	o, s := &options{}, &configmapserver.Server{}
	cmd := &cobra.Command{
		Use:   ConfigMapServerName,
		Short: "Serve the catalog in a ConfigMap over gRPC",
		Long: `configmap-server serves the catalog in a ConfigMap over gRPC, as the pod of a CatalogSource with the
source type configmap or internal does. The data of the ConfigMap has the keys
customResourceDefinitions, clusterServiceVersions and packages. The value of each is a YAML list.

The server reads the ConfigMap once. catalog-operator replaces the pod when the ConfigMap changes.`,
		Example:      "  mainstay run configmap-server -c my-catalog -n olm",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return fmt.Errorf("--port: %q must be a port from 0 to %d", port, math.MaxUint16)
			}

			config, err := o.loadRESTConfig()
			if err != nil {
				return err
			}

			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			s.Config = config
			s.Registry.Address = ":" + port
			s.Registry.Log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))

			return s.Run(cmd.Context())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&s.Name, "configMapName", "c", "", "name of the ConfigMap")
	flags.StringVarP(&s.Namespace, "configMapNamespace", "n", "", "namespace of the ConfigMap")
	flags.StringVarP(&o.kubeconfig, "kubeconfig", "k", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the service account of the pod)")
	flags.StringVarP(&port, "port", "p", "50051", "port to listen on, on all interfaces")
	flags.StringVarP(&s.Registry.TerminationLog, "termination-log", "t", registry.DefaultTerminationLog, "file for the error that terminates the server")
	flags.BoolVar(&s.Permissive, "permissive", false, "serve the valid packages of a ConfigMap with problems")
	flags.BoolVar(&debug, "debug", false, "enable debug logging, including the start and end of each call")
	flags.StringVarP(&database, "database", "d", "bundles.db", "accepted for compatibility; there is no database")
	_ = flags.MarkHidden("database") // the flags were just added
	_ = cmd.MarkFlagRequired("configMapName")
	_ = cmd.MarkFlagRequired("configMapNamespace")

	return cmd
}
