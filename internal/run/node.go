package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/daemon"
	nodeserver "github.com/mainstay-dev/mainstay/internal/node/server"
)

// nodeOptions are the flags of machine-config-controller, machine-config-daemon and
// machine-config-server.
type nodeOptions struct {
	// machine-config-controller and machine-config-daemon: the node that the program runs on.
	name string

	// machine-config-controller.
	release        config.Base
	releaseVersion string

	// machine-config-daemon.
	root        string
	simulate    bool
	runtimeUnit string

	// machine-config-server.
	server          nodeserver.Options
	tlsCert, tlsKey string
}

func (o *nodeOptions) addControllerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.name, "node", os.Getenv("NODE_NAME"), "name of the node that this program runs on, which is updated last (default: $NODE_NAME, else none)")
	flags.StringVar(&o.releaseVersion, "release-version", "", "version to report in ClusterOperator machine-config when all nodes are updated (default: the version of this program)")
	flags.StringVar(&o.release.OSImage, "os-image", "", "operating system image of all nodes, by digest (default: the operating system is not changed)")
	flags.StringVar(&o.release.ExtensionsImage, "extensions-image", "", "image with the extensions of the operating system, by digest")
}

func (o *nodeOptions) addDaemonFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "node", os.Getenv("NODE_NAME"), "name of the node (default: $NODE_NAME)")
	flags.StringVar(&o.root, "root", "", "directory where the root of the node is mounted")
	flags.BoolVar(&o.simulate, "simulate", false, "simulate a node: commands are recorded below --root instead of run, and reboots complete immediately")
	flags.StringVar(&o.runtimeUnit, "runtime-unit", daemon.DefaultRuntimeUnit, "systemd unit of the container runtime")
	_ = cmd.MarkFlagRequired("root") // the flag was just added
}

func (o *nodeOptions) addServerFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.server.Address, "address", nodeserver.DefaultAddress, "address to serve configurations on over HTTPS; 0 disables it")
	flags.StringVar(&o.server.PlainAddress, "plain-address", nodeserver.DefaultPlainAddress, "address to serve configurations on over HTTP, without --bootstrap-kubeconfig; 0 disables it")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "serving certificate; required unless --address is 0")
	flags.StringVar(&o.tlsKey, "tls-key", "", "private key of --tls-cert")
	flags.StringVar(&o.server.Kubeconfig, "bootstrap-kubeconfig", "", "kubeconfig for new machines to request their certificates; every client of the address can read it, so its account must not have other permissions (default: none)")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

// tuneCache restricts the cache of Nodes to the node of the daemon.
func (o *nodeOptions) tuneCache(options *ctrl.Options) {
	options.Cache.ByObject = map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", o.name)},
	}
}

func setupNodes(ctx context.Context, o *options, mgr ctrl.Manager) error {
	pools := mcfgv1.GroupVersion.WithKind(mcfgv1.MachineConfigPoolKind)
	if _, err := mgr.GetRESTMapper().RESTMapping(pools.GroupKind(), pools.Version); meta.IsNoMatchError(err) {
		if err := preparePlatform(ctx, mgr.GetConfig()); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("discovering the kind %s: %w", pools.Kind, err)
	}

	return node.Setup(mgr, node.Options{
		Release: o.node.release, ReleaseVersion: o.node.releaseVersion, Program: o.program, Self: o.node.name,
	})
}

func setupNodeDaemon(_ context.Context, o *options, mgr ctrl.Manager) error {
	if o.node.name == "" {
		return errors.New("--node: the name of the node is required")
	}

	root, err := os.OpenRoot(o.node.root)
	if err != nil {
		return fmt.Errorf("--root: %w", err)
	}

	host := daemon.Machine(root)
	if o.node.simulate {
		host = daemon.Simulated(root)
	}

	return daemon.Setup(mgr, daemon.Options{Node: o.node.name, Root: root, Host: host, RuntimeUnit: o.node.runtimeUnit})
}

func setupNodeServer(ctx context.Context, o *options, mgr ctrl.Manager) error {
	if o.node.tlsCert != "" {
		watched, err := certwatcher.New(o.node.tlsCert, o.node.tlsKey)
		if err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		if err := mgr.Add(watched); err != nil {
			return err
		}
		o.node.server.Certificate = watched.GetCertificate
	}

	if a := o.node.server.Address; o.node.tlsCert == "" && a != "" && a != "0" {
		return errors.New("--tls-cert: a serving certificate is required, unless HTTPS is disabled with --address 0")
	}
	return nodeserver.Setup(ctx, mgr, o.node.server)
}
