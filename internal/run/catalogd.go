package run

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// catalogdOptions are the flags of catalogd.
type catalogdOptions struct {
	listenAddress   string
	externalAddress string
	tlsCert, tlsKey string
	sizeLimit       sizeLimit
}

func newCatalogdServer() server {
	c := &catalogdOptions{}
	return server{
		name:  "catalogd",
		short: "Pull, store and serve catalogs",
		long: `catalogd pulls the images of ClusterCatalogs, stores their content and serves it over HTTPS. Without
--tls-cert, it issues a certificate, stores it in a Secret and publishes its certificate authority in a
ConfigMap for clients.`,
		example:        "  mainstay run catalogd --system-namespace olmv1-system",
		metricsAddress: ":7443",
		addFlags: func(o *options, cmd *cobra.Command) {
			o.leaseName = "catalogd-operator-lock" // That of other implementations of OLM v1: only one is active.
			c.addFlags(cmd.Flags())
		},
		validate: c.validate,
		setup:    c.setupCatalogd,
	}
}

func (c *catalogdOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.listenAddress, "catalogs-server-addr", ":8443", "address to serve catalogs on over HTTPS")
	flags.StringVar(&c.externalAddress, "external-address", "", "host, with a port unless it is 443, at which clients reach the catalogs (default: catalogd-service.<system namespace>.svc)")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "certificate of the catalog server (default: a certificate is issued and renewed automatically)")
	flags.StringVar(&c.tlsKey, "tls-key", "", "private key of --tls-cert")
	c.sizeLimit = catalogstore.DefaultTotalBytes
	flags.Var(&c.sizeLimit, "catalogs-size-limit", "maximum size of all catalogs in --cache-dir, including catalogs that are being unpacked; it must be less than the size of the volume")
}

func (c *catalogdOptions) validate() error {
	return validateListenAddress("catalogs-server-addr", c.listenAddress)
}

func (c *catalogdOptions) setupCatalogd(_ context.Context, o *options, mgr ctrl.Manager) error {
	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}
	return catalog.Setup(mgr, c.newOptions(o, images))
}

// newOptions returns the options of the component.
func (c *catalogdOptions) newOptions(o *options, images *pull.Puller) catalog.Options {
	return catalog.Options{
		ExternalAddress: c.externalAddress,
		ListenAddress:   c.listenAddress,
		CacheDir:        o.cachePath("catalogs"),
		SystemNamespace: o.systemNamespace,
		Puller:          images,
		TLSCertFile:     c.tlsCert,
		TLSKeyFile:      c.tlsKey,
		Limits:          catalogstore.Limits{TotalBytes: int64(c.sizeLimit)},
	}
}

// sizeLimit is a flag for a positive number of bytes, as a Kubernetes quantity.
type sizeLimit int64

// String implements pflag.Value.
func (l *sizeLimit) String() string {
	return resource.NewQuantity(int64(*l), resource.BinarySI).String()
}

// Set implements pflag.Value.
func (l *sizeLimit) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Value() <= 0 {
		return errors.New("must be a size greater than zero, for example 3584Mi")
	}

	*l = sizeLimit(quantity.Value())
	return nil
}

// Type implements pflag.Value.
func (*sizeLimit) Type() string { return "quantity" }
