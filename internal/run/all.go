package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
)

// allOptions are the flags of `mainstay run all`.
type allOptions struct {
	catalogs   catalogdOptions
	extensions operatorControllerOptions
}

func newAllServer() server {
	a := &allOptions{}
	return server{
		name:  "all",
		short: "Run catalogd and operator-controller in one process",
		long: `all runs catalogd and operator-controller in one process, inside or outside of the cluster. It installs the
CRDs and the system namespace, so that it only requires a cluster. Together with 'devcluster up', it
provides a complete OLM on a laptop.`,
		example:        "  devcluster up --detach\n  KUBECONFIG=$(devcluster kubeconfig --path) mainstay run all",
		metricsAddress: "0",
		addFlags:       a.addFlags,
		setup:          a.setupAll,
	}
}

func (a *allOptions) addFlags(_ *options, cmd *cobra.Command) {
	a.catalogs.addFlags(cmd.Flags())
	a.extensions.addFlags(cmd.Flags())

	// Only this process reads the catalogs, so they are served on the loopback interface.
	setFlagDefault(cmd, "catalogs-server-addr", "127.0.0.1:8443")
}

func (a *allOptions) setupAll(ctx context.Context, o *options, mgr ctrl.Manager) error {
	installation := action.Installation{Namespace: o.systemNamespace, IgnoreServiceAccount: a.extensions.ignoreServiceAccount}
	if err := prepareCluster(ctx, mgr.GetConfig(), installation); err != nil {
		return err
	}
	return a.setupOLMv1(ctx, o, mgr)
}

// setupOLMv1 sets up catalogd and operator-controller. The certificate of catalogd is not stored in a Secret,
// because its clients run in the same process.
func (a *allOptions) setupOLMv1(ctx context.Context, o *options, mgr ctrl.Manager) error {
	address, err := localAddress(a.catalogs.listenAddress)
	if err != nil {
		return err
	}
	if a.catalogs.externalAddress == "" {
		a.catalogs.externalAddress = address
	}

	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}

	catalogs := a.catalogs.newOptions(o, images)
	memory, err := certify.NewInMemoryCertificate(catalogs.Hosts(), time.Now())
	if err != nil {
		return fmt.Errorf("issuing the certificate of the catalog server: %w", err)
	}

	if a.catalogs.tlsCert == "" {
		catalogs.InMemoryCertificate = memory
		if err := publishAuthority(ctx, mgr.GetConfig(), o.systemNamespace, memory.CA()); err != nil {
			return err
		}
	}

	if err := catalog.Setup(mgr, catalogs); err != nil {
		return err
	}

	return a.extensions.setupExtensions(o, mgr, images, func(context.Context) (*x509.CertPool, error) {
		return parseCertPool(memory.CA())
	})
}

// publishAuthority publishes the certificate authority of the catalog server of this process for the command
// line, in the ConfigMap of catalogd. It replaces the authority of an earlier process.
func publishAuthority(ctx context.Context, config *rest.Config, namespace string, ca []byte) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	published := corev1ac.ConfigMap(certify.ConfigMapName, namespace).WithData(map[string]string{certify.KeyCA: string(ca)})
	if err := c.Apply(ctx, published, client.FieldOwner(action.InstallFieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	return nil
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
