// Package catalog is the component catalogd: it pulls the images of ClusterCatalogs,
// stores their content, and serves it over HTTPS to the cluster.
//
// What it does stands in its parts: controller/unpack decides and stores,
// controller/follow does so on replicas that do not lead, controller/collect removes
// what is left of deleted catalogs, controller/certify keeps the serving certificate,
// serve answers clients, and store keeps content on disk. This package puts them
// together. Choosing from catalogs is the work of other components, which read them
// over HTTPS.
package catalog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/collect"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/follow"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/unpack"
	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// Defaults of Options.
const (
	DefaultListenAddress   = ":8443"
	DefaultCacheDir        = "/var/cache/mainstay/catalogs"
	DefaultSystemNamespace = "olmv1-system"
	serviceName            = "catalogd-service"
)

// checkEvery is how often the files of the store are looked at, so that what was deleted
// or damaged is unpacked again before somebody misses it. A look takes a few system calls
// per catalog.
const checkEvery = 5 * time.Second

// Options configure the component.
type Options struct {
	// ExternalAddress is the host, with a port if it is not 443, that clients reach the
	// server at. Default catalogd-service.<SystemNamespace>.svc.
	ExternalAddress string
	// ListenAddress is the address that the server listens on. Default ":8443".
	ListenAddress string
	// CacheDir is the folder that content is stored in. It belongs to one process, may be
	// deleted at any time, and is best kept over a restart. Default
	// /var/cache/mainstay/catalogs.
	CacheDir string
	// SystemNamespace is where the program runs and keeps its certificate. Default
	// olmv1-system.
	SystemNamespace string
	// Puller opens images. Required.
	Puller fetch.Puller
	// TLSCertFile and TLSKeyFile are PEM files of a certificate to serve with. They are
	// read again when they change. When both are empty the program issues one.
	TLSCertFile, TLSKeyFile string
	// Memory is a certificate for a server whose clients are in the same process. It
	// excludes the files.
	Memory *certify.Memory
	// Limits bound what one catalog may take.
	Limits catalogstore.Limits
	// ClientLimits bound what clients may ask for at once.
	ClientLimits serve.Limits
}

func (o Options) withDefaults() Options {
	setDefault(&o.ListenAddress, DefaultListenAddress)
	setDefault(&o.CacheDir, DefaultCacheDir)
	setDefault(&o.SystemNamespace, DefaultSystemNamespace)
	setDefault(&o.ExternalAddress, serviceName+"."+o.SystemNamespace+".svc")
	return o
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func (o Options) validate() error {
	switch {
	case o.Puller == nil:
		return errors.New("no puller of images is given")
	case (o.TLSCertFile == "") != (o.TLSKeyFile == ""):
		return errors.New("a certificate file needs a key file and the other way round: give both or none")
	case o.TLSCertFile != "" && o.Memory != nil:
		return errors.New("a certificate is given as files and in memory: give one")
	}

	return nil
}

// baseURL is the address of a catalog's content.
func (o Options) baseURL(name string) string {
	return "https://" + o.ExternalAddress + "/catalogs/" + name
}

// Hosts are the names that the server may be reached by: those of its Service, and the
// external address.
func (o Options) Hosts() []string {
	o = o.withDefaults()
	inNamespace := serviceName + "." + o.SystemNamespace
	hosts := []string{serviceName, inNamespace, inNamespace + ".svc", inNamespace + ".svc.cluster.local"}
	external := o.ExternalAddress
	if host, _, err := net.SplitHostPort(external); err == nil {
		external = host
	}
	if !slices.Contains(hosts, external) {
		hosts = append(hosts, external)
	}

	return hosts
}

// Setup adds the component to a manager, whose scheme knows the kinds of api/olm/v1 and
// of Kubernetes' core.
func Setup(mgr ctrl.Manager, opts Options) error {
	if err := opts.validate(); err != nil {
		return fmt.Errorf("setting up catalogd: %w", err)
	}

	opts = opts.withDefaults()
	contents, err := catalogstore.Open(opts.CacheDir, opts.Limits)
	if err != nil {
		return fmt.Errorf("setting up catalogd: %w", err)
	}

	getCertificate, ready, err := addCertificate(mgr, opts)
	if err != nil {
		return fmt.Errorf("setting up catalogd: %w", err)
	}

	log := mgr.GetLogger().WithName("catalogd")
	server := &serve.Server{
		Address: opts.ListenAddress, Handler: serve.NewHandler(&shelf{store: contents, reader: mgr.GetClient()}, opts.ClientLimits, log),
		Limits:         opts.ClientLimits,
		GetCertificate: getCertificate, Log: log,
	}
	fetcher := fetch.New(opts.Puller, contents)
	arrived := &arrival{reader: mgr.GetClient(), serves: contents.Serves, clock: clock.RealClock{}}

	return errors.Join(
		addControllers(mgr, opts, contents, fetcher),
		mgr.Add(&collect.Collector{Reader: mgr.GetAPIReader(), Store: contents}),
		mgr.Add(onEveryReplica(func(ctx context.Context) error { return check(ctx, contents) })),
		mgr.Add(server),
		mgr.AddReadyzCheck("catalog-server", server.Ready),
		mgr.AddReadyzCheck("catalog-certificate", ready),
		mgr.AddReadyzCheck("catalog-content", arrived.check),
	)
}

// addControllers adds those that fill the store.
func addControllers(mgr ctrl.Manager, opts Options, contents *catalogstore.Store, fetcher *fetch.Fetcher) error {
	retrievals := &pull.Retrievals[catalogstore.Info]{}
	unpacker := &unpack.Reconciler{
		Client: mgr.GetClient(), Store: contents, Fetcher: fetcher, Resolver: opts.Puller,
		BaseURL: opts.baseURL, Retrievals: retrievals, Clock: clock.RealClock{},
	}
	follower := &follow.Reconciler{
		Client: mgr.GetClient(), Store: contents, Fetcher: fetcher, Retrievals: retrievals, Leads: mgr.Elected(),
	}
	return errors.Join(mgr.Add(retrievals.Runnable()), unpacker.SetupWithManager(mgr, contents.OnLost), follower.SetupWithManager(mgr, contents.OnLost))
}

// addCertificate adds what keeps the server's certificate.
func addCertificate(mgr ctrl.Manager, opts Options) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), func(*http.Request) error, error) {
	always := func(*http.Request) error { return nil }
	switch {
	case opts.Memory != nil:
		return opts.Memory.GetCertificate, always, nil
	case opts.TLSCertFile != "":
		watcher, err := certwatcher.New(opts.TLSCertFile, opts.TLSKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the serving certificate: %w", err)
		}
		return watcher.GetCertificate, always, mgr.Add(watcher)
	}

	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for the serving certificate: %w", err)
	}

	holder := &certificate.Holder{}
	ready := func(*http.Request) error {
		if !holder.Ready() {
			return certificate.ErrNone
		}
		return nil
	}

	return holder.GetCertificate, ready, mgr.Add(&certify.Keeper{
		Client: direct, Namespace: opts.SystemNamespace, Hosts: opts.Hosts(), Clock: clock.RealClock{}, Holder: holder,
	})
}

// check looks at the store's files from time to time.
func check(ctx context.Context, contents *catalogstore.Store) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			contents.Check()
		}
	}
}

// onEveryReplica is a Runnable that does not wait to lead.
type onEveryReplica manager.RunnableFunc

// Start runs the function.
func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (onEveryReplica) NeedLeaderElection() bool { return false }
