package run

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// nodeControllerOptions are the flags of machine-config-controller.
type nodeControllerOptions struct {
	// node is the name of the node that the program runs on.
	node           string
	release        config.Base
	releaseVersion string
}

func newNodeControllerServer() server {
	c := &nodeControllerOptions{}
	return server{
		name:  "machine-config-controller",
		short: "Roll out machine configurations to nodes",
		long: `machine-config-controller renders the MachineConfigs of each MachineConfigPool into one configuration and
rolls it out to the nodes of the pool, a few nodes at a time. Nodes are drained before they are updated.
The machine-config-daemon of each node applies the configuration.

It installs the CRDs of MachineConfig and MachineConfigPool if the cluster does not have them.`,
		example:        "  mainstay run machine-config-controller --release-version 1.4.2",
		metricsAddress: ":8797",
		addFlags:       c.addFlags,
		setup:          c.setupNodeController,
	}
}

func (c *nodeControllerOptions) addFlags(_ *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.node, "node", os.Getenv("NODE_NAME"), "name of the node that this program runs on, which is updated last (default: $NODE_NAME, else none)")
	flags.StringVar(&c.releaseVersion, "release-version", "", "version to report in ClusterOperator machine-config when all nodes are updated (default: the version of this program)")
	flags.StringVar(&c.release.OSImage, "os-image", "", "operating system image of all nodes, by digest (default: the operating system is not changed)")
	flags.StringVar(&c.release.ExtensionsImage, "extensions-image", "", "image with the extensions of the operating system, by digest")
}

func (c *nodeControllerOptions) setupNodeController(ctx context.Context, o *options, mgr ctrl.Manager) error {
	pools := mcfgv1.GroupVersion.WithKind(mcfgv1.MachineConfigPoolKind)
	if _, err := mgr.GetRESTMapper().RESTMapping(pools.GroupKind(), pools.Version); meta.IsNoMatchError(err) {
		if err := preparePlatform(ctx, mgr.GetConfig()); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("discovering the kind %s: %w", pools.Kind, err)
	}

	return node.Setup(mgr, node.Options{
		Release: c.release, ReleaseVersion: c.releaseVersion, Program: o.program, Self: c.node,
	})
}
