package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/node/daemon"
)

// nodeDaemonOptions are the flags of machine-config-daemon.
type nodeDaemonOptions struct {
	node        string
	root        string
	simulate    bool
	runtimeUnit string
}

func newNodeDaemonServer() server {
	d := &nodeDaemonOptions{}
	return server{
		name:  "machine-config-daemon",
		short: "Apply the machine configuration of a node",
		long: `machine-config-daemon runs on each node. It writes the files and systemd units of the desired
configuration below the directory where the root of the node is mounted, reboots the node if
required, and reports the current configuration of the node.`,
		example:        "  mainstay run machine-config-daemon --node worker-1 --root /rootfs",
		metricsAddress: ":8798",
		addFlags:       d.addFlags,
		validate:       d.validate,
		setup:          d.setupNodeDaemon,
	}
}

func (d *nodeDaemonOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&d.node, "node", os.Getenv("NODE_NAME"), "name of the node (default: $NODE_NAME)")
	flags.StringVar(&d.root, "root", "", "directory where the root of the node is mounted")
	flags.BoolVar(&d.simulate, "simulate", false, "simulate a node: commands are recorded below --root instead of run, and reboots complete immediately")
	flags.StringVar(&d.runtimeUnit, "runtime-unit", daemon.DefaultRuntimeUnit, "systemd unit of the container runtime")
	_ = cmd.MarkFlagRequired("root") // the flag was just added
	o.tuneManager = d.tuneCache
}

// tuneCache restricts the cache of Nodes to the node of the daemon.
func (d *nodeDaemonOptions) tuneCache(options *ctrl.Options) {
	options.Cache.ByObject = map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", d.node)},
	}
}

func (d *nodeDaemonOptions) validate() error {
	if d.node == "" {
		return errors.New("--node: the name of the node is required: set --node or NODE_NAME")
	}
	return nil
}

func (d *nodeDaemonOptions) setupNodeDaemon(_ context.Context, _ *options, mgr ctrl.Manager) error {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return fmt.Errorf("--root: %w", err)
	}

	host := daemon.Machine(root)
	if d.simulate {
		host = daemon.Simulated(root)
	}

	return daemon.Setup(mgr, daemon.Options{Node: d.node, Root: root, Host: host, RuntimeUnit: d.runtimeUnit})
}
