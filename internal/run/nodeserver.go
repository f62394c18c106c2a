package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	nodeserver "github.com/mainstay-dev/mainstay/internal/node/server"
)

// nodeServerOptions are the flags of machine-config-server.
type nodeServerOptions struct {
	served          nodeserver.Options
	tlsCert, tlsKey string
}

func newNodeServer() server {
	n := &nodeServerOptions{}
	return server{
		name:  "machine-config-server",
		short: "Serve machine configurations to new machines",
		long: `machine-config-server serves the configuration of a pool at /config/POOL to machines that join the
cluster. Ignition applies it at the first boot.

Every client that can reach the server can read the configurations. They contain no secrets, and the
server has no access to Secrets.`,
		example:        "  mainstay run machine-config-server --tls-cert tls.crt --tls-key tls.key",
		metricsAddress: ":8799",
		addFlags:       n.addFlags,
		validate:       n.validate,
		setup:          n.setupNodeServer,
	}
}

func (n *nodeServerOptions) addFlags(_ *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&n.served.Address, "address", nodeserver.DefaultAddress, "address to serve configurations on over HTTPS; 0 disables it")
	flags.StringVar(&n.served.PlainAddress, "plain-address", nodeserver.DefaultPlainAddress, "address to serve configurations on over HTTP, without --bootstrap-kubeconfig; 0 disables it")
	flags.StringVar(&n.tlsCert, "tls-cert", "", "serving certificate; required unless --address is 0")
	flags.StringVar(&n.tlsKey, "tls-key", "", "private key of --tls-cert")
	flags.StringVar(&n.served.Kubeconfig, "bootstrap-kubeconfig", "", "kubeconfig for new machines to request their certificates; every client of the address can read it, so its account must not have other permissions (default: none)")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

func (n *nodeServerOptions) validate() error {
	if err := validateListenAddress("address", n.served.Address); err != nil {
		return err
	}
	if err := validateListenAddress("plain-address", n.served.PlainAddress); err != nil {
		return err
	}
	if a := n.served.Address; n.tlsCert == "" && a != "" && a != "0" {
		return errors.New("--tls-cert: a serving certificate is required, unless HTTPS is disabled with --address 0")
	}
	return nil
}

func (n *nodeServerOptions) setupNodeServer(ctx context.Context, _ *options, mgr ctrl.Manager) error {
	if n.tlsCert != "" {
		watched, err := certwatcher.New(n.tlsCert, n.tlsKey)
		if err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		if err := mgr.Add(watched); err != nil {
			return err
		}
		n.served.Certificate = watched.GetCertificate
	}

	return nodeserver.Setup(ctx, mgr, n.served)
}
