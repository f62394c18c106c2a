package run

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver"
)

// packageServerOptions are the flags of package-server. The flags for serving, authentication and authorization
// have the names that aggregated API servers use.
type packageServerOptions struct {
	served packageserver.Options

	host string
	port uint16

	certDir, certFile, keyFile string
	// certificate is a certificate that exists only in memory. If it is nil, the certificate comes from the files, or is
	// issued if there are none.
	certificate  *selfIssuedCertificate
	minVersion   string
	cipherSuites []string

	authenticationKubeconfig, authorizationKubeconfig string
	debug                                             bool
}

func newPackageServer() server { return (&packageServerOptions{}).newServer() }

func (p *packageServerOptions) newServer() server {
	return server{
		name:  "package-server",
		short: "Serve the packages of all catalogs as PackageManifests",
		long: `package-server reads the packages of all CatalogSources and serves them as PackageManifests. It is an
aggregated API server for the APIService v1.packages.operators.coreos.com. Every replica serves.`,
		example:        "  mainstay run package-server --global-namespace olm",
		metricsAddress: ":8443",
		addFlags:       p.addFlags,
		validate:       p.validate,
		setup:          p.setupPackageServer,
	}
}

func (p *packageServerOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&p.served.Interval, "interval", packageserver.DefaultInterval, "resync interval of catalogs; the OLMConfig overrides it")
	flags.StringVar(&p.served.GlobalNamespace, "global-namespace", "", "namespace of the global catalogs, which are visible in all namespaces (default: none)")
	flags.StringVar(&p.host, "bind-address", "0.0.0.0", "address to serve packages on")
	flags.Uint16Var(&p.port, "secure-port", 5443, "port to serve packages on over HTTPS")
	flags.StringVar(&p.certDir, "cert-dir", filepath.Join("apiserver.local.config", "certificates"), "directory with apiserver.crt and apiserver.key, if --tls-cert-file is not set; if they do not exist, a certificate is issued")
	flags.StringVar(&p.certFile, "tls-cert-file", "", "serving certificate")
	flags.StringVar(&p.keyFile, "tls-private-key-file", "", "private key of --tls-cert-file")
	flags.StringVar(&p.minVersion, "tls-min-version", "VersionTLS12", "minimum TLS version: VersionTLS12 or VersionTLS13")
	flags.StringSliceVar(&p.cipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2 by their IANA names (default: the default cipher suites of Go)")
	p.addAccessFlags(flags)
	flags.BoolVar(&p.debug, "debug", false, "alias of --v=1")
	cmd.MarkFlagsRequiredTogether("tls-cert-file", "tls-private-key-file")
	cmd.PreRun = func(*cobra.Command, []string) {
		if p.debug {
			o.verbosity = max(o.verbosity, 1)
		}
	}
	o.tuneManager = func(options *ctrl.Options) {
		options.Cache.ByObject = map[client.Object]cache.ByObject{&operatorsv1alpha1.CatalogSource{}: {Transform: stripCatalogSource}}
	}
}

func (p *packageServerOptions) validate() error {
	if err := validateInterval("interval", p.served.Interval); err != nil {
		return err
	}
	_, err := p.parseTLSFlags()
	return err
}

func (p *packageServerOptions) addAccessFlags(flags *pflag.FlagSet) {
	a := &p.served.Access
	flags.StringVar(&p.authenticationKubeconfig, "authentication-kubeconfig", "", "kubeconfig for TokenReviews (default: --kubeconfig)")
	flags.StringVar(&p.authorizationKubeconfig, "authorization-kubeconfig", "", "kubeconfig for SubjectAccessReviews (default: --kubeconfig)")
	flags.BoolVar(&a.SkipLookup, "authentication-skip-lookup", false, "do not read ConfigMap kube-system/extension-apiserver-authentication")
	flags.BoolVar(&a.TolerateLookupFailure, "authentication-tolerate-lookup-failure", false, "start even if ConfigMap kube-system/extension-apiserver-authentication cannot be read")
	flags.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", 10*time.Second, "how long the result of a TokenReview is cached")
	flags.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", 10*time.Second, "how long an allowed SubjectAccessReview is cached")
	flags.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", 10*time.Second, "how long a denied SubjectAccessReview is cached")
	flags.StringSliceVar(&p.served.AlwaysAllow, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths that require no authorization; a trailing * matches every path with the prefix")
	flags.StringVar(&a.ClientCAFile, "client-ca-file", "", "certificate authorities for client certificates of users (default: those in the ConfigMap)")
	h := &a.RequestHeader
	flags.StringVar(&h.ClientCAFile, "requestheader-client-ca-file", "", "certificate authorities for client certificates of authenticating proxies (default: all --requestheader flags are taken from the ConfigMap)")
	flags.StringSliceVar(&h.AllowedNames, "requestheader-allowed-names", nil, "allowed common names of the certificates of authenticating proxies (default: all)")
	flags.StringSliceVar(&h.UsernameHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "request headers with the user name")
	flags.StringSliceVar(&h.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "request headers with the groups of the user")
	flags.StringSliceVar(&h.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "prefixes of request headers with extra attributes of the user")
}

// stripCatalogSource is a cache transform that removes unused fields of CatalogSources.
func stripCatalogSource(object any) (any, error) {
	if catalog, ok := object.(*operatorsv1alpha1.CatalogSource); ok {
		catalog.ManagedFields, catalog.Annotations = nil, nil
		catalog.Spec.Icon, catalog.Spec.Description = nil, ""
		catalog.Spec.GrpcPodConfig, catalog.Status.Conditions = nil, nil
	}
	return object, nil
}

func (p *packageServerOptions) setupPackageServer(ctx context.Context, o *options, mgr ctrl.Manager) error {
	p.served.Address = net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	p.served.Proxy, p.served.Pool = dial.ProxyFromEnvironment(os.Getenv), o.catalogPool
	var err error
	if p.served.TLS, err = p.newTLSConfig(mgr); err != nil {
		return err
	}
	if p.served.Authentication, err = loadClusterConfig(o, "authentication-kubeconfig", p.authenticationKubeconfig); err != nil {
		return err
	}
	if p.served.Authorization, err = loadClusterConfig(o, "authorization-kubeconfig", p.authorizationKubeconfig); err != nil {
		return err
	}

	return packageserver.Setup(ctx, mgr, p.served)
}

// loadClusterConfig returns the client configuration of a kubeconfig flag, or nil if the flag is not set.
func loadClusterConfig(o *options, flag, kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, nil // The configuration of the manager is used.
	}

	other := *o
	other.kubeconfig = kubeconfig
	config, err := other.loadRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}

	return config, nil
}

var tlsVersions = map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

// parseTLSFlags returns a TLS configuration with the version and the cipher suites of the flags.
func (p *packageServerOptions) parseTLSFlags() (*tls.Config, error) {
	lowest, ok := tlsVersions[p.minVersion]
	if !ok {
		return nil, fmt.Errorf("--tls-min-version: %q must be one of %s", p.minVersion, strings.Join(slices.Sorted(maps.Keys(tlsVersions)), ", "))
	}

	config := &tls.Config{MinVersion: lowest}
	for _, name := range p.cipherSuites {
		suite, err := parseCipherSuite(name)
		if err != nil {
			return nil, err
		}
		config.CipherSuites = append(config.CipherSuites, suite)
	}

	return config, nil
}

// newTLSConfig returns the TLS configuration for serving packages.
func (p *packageServerOptions) newTLSConfig(mgr ctrl.Manager) (*tls.Config, error) {
	config, err := p.parseTLSFlags()
	if err != nil {
		return nil, err
	}

	certFile, keyFile := p.certFile, p.keyFile
	if certFile == "" && p.certificate == nil {
		certFile, keyFile = filepath.Join(p.certDir, "apiserver.crt"), filepath.Join(p.certDir, "apiserver.key")
		if _, err := os.Stat(certFile); err != nil {
			p.certificate = &selfIssuedCertificate{} // There are no files.
		}
	}
	if p.certificate != nil {
		config.GetCertificate = p.certificate.getCertificate
		return config, nil
	}

	watched, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}

	config.GetCertificate = watched.GetCertificate
	return config, mgr.Add(watched)
}

func parseCipherSuite(name string) (uint16, error) {
	for _, suite := range tls.CipherSuites() {
		if suite.Name == name {
			return suite.ID, nil
		}
	}
	return 0, fmt.Errorf("--tls-cipher-suites: %q is unknown or insecure", name)
}

const (
	// authorityValidity is the validity of the authority of self-issued certificates. It must exceed the time that a process
	// runs.
	authorityValidity = 10 * 365 * 24 * time.Hour
	// certificateValidity is the validity of self-issued certificates, which are renewed.
	certificateValidity = 365 * 24 * time.Hour
)

// selfIssuedCertificate is a certificate that the server issues for itself, under its own authority. Both are kept in memory
// only. The zero value is a certificate for localhost.
type selfIssuedCertificate struct {
	// hosts are the names and addresses of the server. None means localhost.
	hosts []string

	mu              sync.Mutex
	authority, pair *certificate.Pair
}

func (c *selfIssuedCertificate) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.pair != nil && now.Before(c.pair.RenewAt()) {
		return c.pair.TLS(), nil
	}
	if err := c.ensureAuthority(now); err != nil {
		return nil, err
	}

	hosts := c.hosts
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1"}
	}
	pair, err := c.authority.Issue(hosts, certificateValidity, now)
	if err != nil {
		return nil, fmt.Errorf("issuing the serving certificate: %w", err)
	}

	c.pair = pair
	return pair.TLS(), nil
}

// authorityPEM returns the certificate of the authority, which clients trust.
func (c *selfIssuedCertificate) authorityPEM() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ensureAuthority(time.Now()); err != nil {
		return nil, err
	}
	return c.authority.CertificatePEM(), nil
}

// ensureAuthority creates the authority if there is none. c.mu must be held.
func (c *selfIssuedCertificate) ensureAuthority(now time.Time) (err error) {
	if c.authority == nil {
		c.authority, err = certificate.NewAuthority("mainstay", authorityValidity, now)
	}
	return err
}
