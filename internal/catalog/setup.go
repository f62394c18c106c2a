// Package catalog is the component catalogd: it pulls the images of ClusterCatalogs, stores their content,
// and serves it over HTTPS to the cluster.
//
// This package sets up the parts of the component. controller/unpack reconciles ClusterCatalogs on the
// leader. controller/follow stores the same content on the other replicas. controller/collect removes
// the content of deleted catalogs. controller/certify manages the serving certificate. serve implements
// the HTTP API, and catalogstore stores the content on disk. Other components resolve bundles from
// catalogs, which they read over HTTPS.
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
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
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

// storeResyncInterval is the interval at which the files of the store are checked, so that deleted or
// damaged content is unpacked again before a client requests it. A check takes a few system calls per
// catalog.
const storeResyncInterval = 5 * time.Second

// Options configure the component.
type Options struct {
	// ExternalAddress is the host, with a port if it is not 443, at which clients reach the server. The
	// default is catalogd-service.<SystemNamespace>.svc.
	ExternalAddress string
	// ListenAddress is the address that the server listens on. The default is ":8443".
	ListenAddress string
	// CacheDir is the directory in which content is stored. It must not be shared between processes. It
	// can be deleted at any time, and should be preserved across restarts. The default is
	// /var/cache/mainstay/catalogs.
	CacheDir string
	// Store is the store in CacheDir, if another component of the process uses it too. If it is nil, it is
	// opened.
	Store *catalogstore.Store
	// SystemNamespace is the namespace of the program and of its certificate. The default is
	// olmv1-system.
	SystemNamespace string
	// Puller opens images. Required.
	Puller fetch.Puller
	// TLSCertFile and TLSKeyFile are PEM files of the serving certificate. They are reloaded when they
	// change. If both are empty, the program issues a certificate.
	TLSCertFile, TLSKeyFile string
	// InMemoryCertificate is a certificate for a server whose clients are in the same process. It must not be set
	// together with the files.
	InMemoryCertificate *certify.InMemoryCertificate
	// Limits limit the size of catalogs.
	Limits catalogstore.Limits
	// ClientLimits limit concurrent connections and requests.
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

func (o Options) validateOptions() error {
	switch {
	case o.Puller == nil:
		return errors.New("no image puller is set")
	case (o.TLSCertFile == "") != (o.TLSKeyFile == ""):
		return errors.New("certificate file and key file must be set together")
	case o.TLSCertFile != "" && o.InMemoryCertificate != nil:
		return errors.New("the certificate is set as files and in memory: set one of them")
	}

	return nil
}

// catalogBaseURL returns the base URL of the content of a catalog.
func (o Options) catalogBaseURL(name string) string {
	return "https://" + o.ExternalAddress + "/catalogs/" + name
}

// Hosts returns the host names of the server: the names of its Service and the external address.
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

// Setup adds the component to a manager. The scheme of the manager must contain the kinds of api/olm/v1 and
// of core/v1.
func Setup(mgr ctrl.Manager, opts Options) error {
	if err := opts.validateOptions(); err != nil {
		return fmt.Errorf("setting up catalogd: %w", err)
	}

	metrics.Register()

	opts = opts.withDefaults()
	contents := opts.Store
	if contents == nil {
		var err error
		if contents, err = catalogstore.Open(opts.CacheDir, opts.Limits); err != nil {
			return fmt.Errorf("setting up catalogd: %w", err)
		}
	}

	getCertificate, ready, err := addCertificate(mgr, opts)
	if err != nil {
		return fmt.Errorf("setting up catalogd: %w", err)
	}

	log := mgr.GetLogger().WithName("catalogd")
	server := &serve.Server{
		Address: opts.ListenAddress, Handler: serve.NewHandler(&replicaStore{store: contents, reader: mgr.GetClient()}, opts.ClientLimits, log),
		Limits:         opts.ClientLimits,
		GetCertificate: getCertificate, Log: log,
	}
	fetcher := fetch.New(opts.Puller, contents)
	arrived := &contentReadiness{reader: mgr.GetClient(), serves: contents.Serves, clock: clock.RealClock{}}

	return errors.Join(
		addControllers(mgr, opts, contents, fetcher),
		mgr.Add(&collect.Collector{Reader: mgr.GetAPIReader(), Store: contents}),
		mgr.Add(everyReplicaRunnable(func(ctx context.Context) error { return checkStorePeriodically(ctx, contents) })),
		mgr.Add(server),
		mgr.AddReadyzCheck("catalog-server", server.Ready),
		mgr.AddReadyzCheck("catalog-certificate", ready),
		mgr.AddReadyzCheck("catalog-content", arrived.checkContent),
	)
}

// addControllers adds the controllers that fill the store.
func addControllers(mgr ctrl.Manager, opts Options, contents *catalogstore.Store, fetcher *fetch.Fetcher) error {
	retrievals := &pull.Retrievals[catalogstore.Info]{}
	unpacker := &unpack.Reconciler{
		Client: mgr.GetClient(), Store: contents, Fetcher: fetcher, Resolver: opts.Puller,
		BaseURL: opts.catalogBaseURL, Retrievals: retrievals, Clock: clock.RealClock{},
	}
	follower := &follow.Reconciler{
		Client: mgr.GetClient(), Store: contents, Fetcher: fetcher, Retrievals: retrievals, Elected: mgr.Elected(),
	}
	return errors.Join(mgr.Add(retrievals.Runnable()), unpacker.SetupWithManager(mgr, contents.OnLost), follower.SetupWithManager(mgr, contents.OnLost))
}

// addCertificate adds the source of the serving certificate to the manager. It returns the function that
// provides the certificate, and its readiness check.
func addCertificate(mgr ctrl.Manager, opts Options) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), func(*http.Request) error, error) {
	always := func(*http.Request) error { return nil }
	switch {
	case opts.InMemoryCertificate != nil:
		return opts.InMemoryCertificate.GetCertificate, always, nil
	case opts.TLSCertFile != "":
		watcher, err := certwatcher.New(opts.TLSCertFile, opts.TLSKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the serving certificate: %w", err)
		}
		return watcher.GetCertificate, always, mgr.Add(watcher)
	}

	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client for the serving certificate: %w", err)
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

// checkStorePeriodically checks the files of the store at each storeResyncInterval until the context is
// done.
func checkStorePeriodically(ctx context.Context, contents *catalogstore.Store) error {
	ticker := time.NewTicker(storeResyncInterval)
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

// everyReplicaRunnable is a manager.Runnable that runs on every replica.
type everyReplicaRunnable manager.RunnableFunc

// Start implements manager.Runnable.
func (f everyReplicaRunnable) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplicaRunnable) NeedLeaderElection() bool { return false }
