package run

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// server is a component of `mainstay run`.
type server struct {
	name, short, long, example string
	// metricsAddress is the default address of /metrics.
	metricsAddress string
	// The following fields select the flags of the server.
	catalogd, operatorController, clusterVersion, nodes, nodeDaemon, nodeServer bool
	// addFlags adds the flags that only this server has, and changes the defaults of other flags. It can be
	// nil.
	addFlags func(o *options, cmd *cobra.Command)

	setup func(ctx context.Context, o *options, mgr ctrl.Manager) error
}

// servers are the components of `mainstay run`.
var servers = []server{
	{
		name:  "catalogd",
		short: "Pull, store and serve catalogs",
		long: `catalogd pulls the images of ClusterCatalogs, stores their content and serves it over HTTPS. Without
--tls-cert, it issues a certificate, stores it in a Secret and publishes its certificate authority in a
ConfigMap for clients.`,
		example:        "  mainstay run catalogd --system-namespace olmv1-system",
		metricsAddress: ":7443",
		catalogd:       true,
		setup:          setupCatalogd,
	},
	{
		name:  "operator-controller",
		short: "Install and update extensions",
		long: `operator-controller resolves bundles for ClusterExtensions from the catalogs, rolls them out phase by
phase, and corrects drift of the installed objects.`,
		example:            "  mainstay run operator-controller --system-namespace olmv1-system",
		metricsAddress:     ":8443",
		operatorController: true,
		setup:              setupOperatorController,
	},
	{
		name:  "cluster-version-operator",
		short: "Reconcile the cluster to its release",
		long: `cluster-version-operator reconciles the cluster to the release in its ClusterVersion. It verifies and
retrieves the release image, checks the preconditions of the update, and applies the manifests of the
release in order.

It installs the CRDs of ClusterVersion and ClusterOperator if the cluster does not have them. The
ClusterVersion itself is created with 'mainstay cluster init'. Without a ClusterVersion, nothing is
applied.`,
		example:        "  mainstay run cluster-version-operator --release-image registry.example.com/platform@sha256:...",
		metricsAddress: "0.0.0.0:9099",
		clusterVersion: true,
		setup:          setupClusterVersion,
	},
	{
		name:  "machine-config-controller",
		short: "Roll out machine configurations to nodes",
		long: `machine-config-controller renders the MachineConfigs of each MachineConfigPool into one configuration and
rolls it out to the nodes of the pool, a few nodes at a time. Nodes are drained before they are updated.
The machine-config-daemon of each node applies the configuration.

It installs the CRDs of MachineConfig and MachineConfigPool if the cluster does not have them.`,
		example:        "  mainstay run machine-config-controller --release-version 1.4.2",
		metricsAddress: ":8797",
		nodes:          true,
		setup:          setupNodes,
	},
	{
		name:  "machine-config-daemon",
		short: "Apply the machine configuration of a node",
		long: `machine-config-daemon runs on each node. It writes the files and systemd units of the desired
configuration below the directory where the root of the node is mounted, reboots the node if
required, and reports the current configuration of the node.`,
		example:        "  mainstay run machine-config-daemon --node worker-1 --root /rootfs",
		metricsAddress: ":8798",
		nodeDaemon:     true,
		setup:          setupNodeDaemon,
	},
	{
		name:  "machine-config-server",
		short: "Serve machine configurations to new machines",
		long: `machine-config-server serves the configuration of a pool at /config/POOL to machines that join the
cluster. Ignition applies it at the first boot.

Every client that can reach the server can read the configurations. They contain no secrets, and the
server has no access to Secrets.`,
		example:        "  mainstay run machine-config-server --tls-cert tls.crt --tls-key tls.key",
		metricsAddress: ":8799",
		nodeServer:     true,
		setup:          setupNodeServer,
	},
	newOLMOperatorServer(),
	newCatalogOperatorServer(),
	newMarketplaceServer(),
	newPackageServer(),
	{
		name:  "all",
		short: "Run catalogd and operator-controller in one process",
		long: `all runs catalogd and operator-controller in one process, inside or outside of the cluster. It installs the
CRDs and the system namespace, so that it only requires a cluster. Together with 'devcluster up', it
provides a complete OLM on a laptop.`,
		example:        "  devcluster up --detach\n  KUBECONFIG=$(devcluster kubeconfig --path) mainstay run all",
		metricsAddress: "0",
		catalogd:       true, operatorController: true,
		setup: setupAll,
	},
}

// NewCommand returns the command `mainstay run`. The argument program is the version of this program.
func NewCommand(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run COMPONENT",
		Short:   "Run a server component",
		Long:    "Run a server component of Mainstay until it is interrupted.",
		Example: "  mainstay run all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown component %q: see 'mainstay run --help'", args[0])
			}
			return cmd.Help()
		},
	}

	for _, s := range servers {
		cmd.AddCommand(s.newCommand(program))
	}

	cmd.AddCommand(newUpdateServiceCommand(), newCopyReleaseCommand())
	return cmd
}

func (s server) newCommand(program string) *cobra.Command {
	o := &options{program: program}
	cmd := &cobra.Command{
		Use: s.name, Short: s.short, Long: s.long, Example: s.example,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return o.runManager(ctx, s.name, func(mgr ctrl.Manager) error { return s.setup(ctx, o, mgr) })
		},
	}

	o.addCommonFlags(cmd.Flags(), s.metricsAddress)
	if s.catalogd {
		o.addCatalogdFlags(cmd.Flags())
	}
	if s.operatorController {
		o.addOperatorControllerFlags(cmd.Flags())
	}
	if s.clusterVersion {
		o.addClusterVersionFlags(cmd.Flags())
	}
	if s.nodes {
		o.node.addControllerFlags(cmd.Flags())
	}
	if s.nodeDaemon {
		o.node.addDaemonFlags(cmd)
		o.tuneManager = o.node.tuneCache
	}
	if s.nodeServer {
		o.node.addServerFlags(cmd)
	}
	if s.addFlags != nil {
		s.addFlags(o, cmd)
	}

	if s.name == "all" {
		// Only this process reads the catalogs, so they are served on the loopback interface.
		flag := cmd.Flags().Lookup("catalogs-server-addr")
		flag.DefValue = "127.0.0.1:8443"
		o.catalogsAddress = flag.DefValue
	}

	return cmd
}

// localAddress returns the address at which this process reaches its own listener.
func localAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("--catalogs-server-addr: %w", err)
	}
	if port == "0" {
		return "", errors.New("--catalogs-server-addr: a port is required, because it is part of the URLs of the catalogs")
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}

	return net.JoinHostPort(host, port), nil
}
