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
	// The first two: the node that this runs on.
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

func (o *nodeOptions) controller(flags *pflag.FlagSet) {
	flags.StringVar(&o.name, "node", os.Getenv("NODE_NAME"), "node that this runs on, whose turn comes last; unset: $NODE_NAME, or none")
	flags.StringVar(&o.releaseVersion, "release-version", "", "version that nodes are brought to, which ClusterOperator machine-config reports; unset: that of this program")
	flags.StringVar(&o.release.OSImage, "os-image", "", "image of the operating system of every node, by digest; unset: nodes keep theirs")
	flags.StringVar(&o.release.ExtensionsImage, "extensions-image", "", "image that extensions of the operating system are taken from, by digest")
}

func (o *nodeOptions) daemon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "node", os.Getenv("NODE_NAME"), "name of the node; unset: $NODE_NAME")
	flags.StringVar(&o.root, "root", "", "folder that stands for the root of the node")
	flags.BoolVar(&o.simulate, "simulate", false, "play a node: commands are written down below --root and not run, and a reboot is over at once")
	flags.StringVar(&o.runtimeUnit, "runtime-unit", daemon.DefaultRuntimeUnit, "systemd unit of the container runtime")
	_ = cmd.MarkFlagRequired("root") // the flag was just added
}

func (o *nodeOptions) serve(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.server.Address, "address", nodeserver.DefaultAddress, "address that configurations are given on, over HTTPS; 0 turns it off")
	flags.StringVar(&o.server.PlainAddress, "plain-address", nodeserver.DefaultPlainAddress, "address that they are given on over HTTP, without --bootstrap-kubeconfig; 0 turns it off")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate to serve with; required unless --address is 0")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key of --tls-cert")
	flags.StringVar(&o.server.Kubeconfig, "bootstrap-kubeconfig", "", "kubeconfig that new machines get, to ask for their certificates with: everyone who reaches the address can read it, so let its account do nothing else; unset: none")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

// tune has the cache hold the node of the daemon, and no other.
func (o *nodeOptions) tune(options *ctrl.Options) {
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
		return fmt.Errorf("looking for the kind %s: %w", pools.Kind, err)
	}

	return node.Setup(mgr, node.Options{
		Release: o.node.release, ReleaseVersion: o.node.releaseVersion, Program: o.program, Self: o.node.name,
	})
}

func setupNodeDaemon(_ context.Context, o *options, mgr ctrl.Manager) error {
	if o.node.name == "" {
		return errors.New("--node: name the node that this runs on")
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
		return errors.New("--tls-cert: name the certificate to serve with, or turn HTTPS off with --address 0")
	}
	return nodeserver.Setup(ctx, mgr, o.node.server)
}
