package run

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// server is a program of `mainstay run`.
type server struct {
	name, short, long, example string
	// metricsAddress is where metrics are unless told otherwise.
	metricsAddress string
	// catalogd and operatorController say which flags the server has.
	catalogd, operatorController, clusterVersion, nodes, nodeDaemon, nodeServer bool
	// bind adds the flags that only this server has, and changes the defaults of others; nil adds none.
	bind func(o *options, cmd *cobra.Command)

	setup func(ctx context.Context, o *options, mgr ctrl.Manager) error
}

// servers are all programs of `mainstay run`.
var servers = []server{
	{
		name:  "catalogd",
		short: "Pull, store and serve catalogs",
		long: `catalogd pulls the images of ClusterCatalogs, stores their content and serves it over
HTTPS. Without --tls-cert it issues itself a certificate, keeps it in a Secret, and
publishes its authority for clients to trust.`,
		example:        "  mainstay run catalogd --system-namespace olmv1-system",
		metricsAddress: ":7443",
		catalogd:       true,
		setup:          setupCatalogd,
	},
	{
		name:  "operator-controller",
		short: "Install and update extensions",
		long: `operator-controller chooses bundles for ClusterExtensions from the catalogs, rolls them
out phase by phase, and keeps what they installed as it is meant to be.`,
		example:            "  mainstay run operator-controller --system-namespace olmv1-system",
		metricsAddress:     ":8443",
		operatorController: true,
		setup:              setupOperatorController,
	},
	{
		name:  "cluster-version-operator",
		short: "Keep the cluster at its release",
		long: `cluster-version-operator brings the cluster to the release that its ClusterVersion asks
for, and keeps it there: it verifies and retrieves the release image, asks whether the
cluster is fit for it, and applies its manifests in their order. It brings the kinds
ClusterVersion and ClusterOperator with it where the cluster has none. The ClusterVersion
itself is created with 'mainstay cluster init': without it, nothing is applied.`,
		example:        "  mainstay run cluster-version-operator --release-image registry.example.com/platform@sha256:...",
		metricsAddress: "0.0.0.0:9099",
		clusterVersion: true,
		setup:          setupClusterVersion,
	},
	{
		name:  "machine-config-controller",
		short: "Bring nodes to their configurations, a few at a time",
		long: `machine-config-controller merges the MachineConfigs of each MachineConfigPool into one
configuration, tells the nodes of the pool to take it, a few at a time, and moves their
pods away before. What happens on a node is done by its machine-config-daemon. It brings
the kinds MachineConfig and MachineConfigPool with it where the cluster has none.`,
		example:        "  mainstay run machine-config-controller --release-version 1.4.2",
		metricsAddress: ":8797",
		nodes:          true,
		setup:          setupNodes,
	},
	{
		name:  "machine-config-daemon",
		short: "Bring one node to the configuration that it is told to have",
		long: `machine-config-daemon runs on each node. It writes the files and systemd units of the
configuration that the node was told to have, below the folder that stands for the
node's root, has the node start again where that is needed, and says what the node has.`,
		example:        "  mainstay run machine-config-daemon --node worker-1 --root /rootfs",
		metricsAddress: ":8798",
		nodeDaemon:     true,
		setup:          setupNodeDaemon,
	},
	{
		name:  "machine-config-server",
		short: "Give new machines the configuration of their pool",
		long: `machine-config-server gives a machine that joins the cluster the configuration of its
pool, at /config/POOL, for Ignition to carry out at the first boot. Whoever reaches it can
read configurations, and nothing else: they hold no secrets, and it may read none.`,
		example:        "  mainstay run machine-config-server --tls-cert tls.crt --tls-key tls.key",
		metricsAddress: ":8799",
		nodeServer:     true,
		setup:          setupNodeServer,
	},
	olmOperatorServer(),
	catalogOperatorServer(),
	marketplaceServer(),
	packageServerServer(),
	{
		name:  "all",
		short: "Run every server in one process",
		long: `all runs every server in one process, outside of a cluster or inside. It brings the CRDs
and the system namespace with it, so that it needs nothing but a cluster: with
'devcluster up' it is a complete OLM on a laptop.`,
		example:        "  devcluster up --detach\n  KUBECONFIG=$(devcluster kubeconfig --path) mainstay run all",
		metricsAddress: "0",
		catalogd:       true, operatorController: true,
		setup: setupAll,
	},
}

// Command makes `mainstay run`. program is the version of this program.
func Command(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run COMPONENT",
		Short:   "Run the servers",
		Long:    "run starts one of the servers of Mainstay, or all of them in one process, and runs until it is interrupted.",
		Example: "  mainstay run all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown component %q: see 'mainstay run --help'", args[0])
			}
			return cmd.Help()
		},
	}

	for _, s := range servers {
		cmd.AddCommand(s.command(program))
	}

	cmd.AddCommand(updateServiceCommand(), copyReleaseCommand())
	return cmd
}

func (s server) command(program string) *cobra.Command {
	o := &options{program: program}
	cmd := &cobra.Command{
		Use: s.name, Short: s.short, Long: s.long, Example: s.example,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return o.start(ctx, s.name, func(mgr ctrl.Manager) error { return s.setup(ctx, o, mgr) })
		},
	}

	o.common(cmd.Flags(), s.metricsAddress)
	if s.catalogd {
		o.catalogd(cmd.Flags())
	}
	if s.operatorController {
		o.operatorController(cmd.Flags())
	}
	if s.clusterVersion {
		o.clusterVersion(cmd.Flags())
	}
	if s.nodes {
		o.node.controller(cmd.Flags())
	}
	if s.nodeDaemon {
		o.node.daemon(cmd)
		o.tune = o.node.tune
	}
	if s.nodeServer {
		o.node.serve(cmd)
	}
	if s.bind != nil {
		s.bind(o, cmd)
	}

	if s.name == "all" {
		// Nothing but this process reads the catalogs, so they are served to it alone.
		flag := cmd.Flags().Lookup("catalogs-server-addr")
		flag.DefValue = "127.0.0.1:8443"
		o.catalogsAddress = flag.DefValue
	}

	return cmd
}

// localAddress is the address by which this process reaches what it listens on.
func localAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("--catalogs-server-addr: %w", err)
	}
	if port == "0" {
		return "", errors.New("--catalogs-server-addr: name a port, for it is part of the addresses of the catalogs")
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}

	return net.JoinHostPort(host, port), nil
}
