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

// packageServer are the flags of package-server. Those of its server and of how it finds out who asks
// are called as in every aggregated API server.
type packageServer struct {
	served packageserver.Options

	host string
	port uint16

	certDir, certFile, keyFile string
	minVersion                 string
	cipherSuites               []string

	authenticationKubeconfig, authorizationKubeconfig string
	debug                                             bool
}

func packageServerServer() server {
	p := &packageServer{}
	return server{
		name:  "package-server",
		short: "Serve the packages of all catalogs as PackageManifests",
		long: `package-server reads the packages of every CatalogSource and serves them as the kind
PackageManifest, which the API servers of the cluster pass requests for on to it by the
APIService v1.packages.operators.coreos.com. Every replica serves.`,
		example:        "  mainstay run package-server --global-namespace olm",
		metricsAddress: ":8443",
		bind:           p.bind,
		setup:          p.setup,
	}
}

func (p *packageServer) bind(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&p.served.Interval, "interval", packageserver.DefaultInterval, "how often catalogs are read although nothing has changed; OLMConfig overrides it")
	flags.StringVar(&p.served.GlobalNamespace, "global-namespace", "", "namespace whose catalogs all namespaces see; unset: none")
	flags.StringVar(&p.host, "bind-address", "0.0.0.0", "address that packages are served on")
	flags.Uint16Var(&p.port, "secure-port", 5443, "port that packages are served on, over HTTPS")
	flags.StringVar(&p.certDir, "cert-dir", filepath.Join("apiserver.local.config", "certificates"), "folder with apiserver.crt and apiserver.key, if --tls-cert-file is unset; without them a certificate is issued")
	flags.StringVar(&p.certFile, "tls-cert-file", "", "certificate to serve with")
	flags.StringVar(&p.keyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.StringVar(&p.minVersion, "tls-min-version", "VersionTLS12", "lowest version of TLS: VersionTLS12 or VersionTLS13")
	flags.StringSliceVar(&p.cipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2, by their IANA names; unset: those that Go takes")
	p.bindAccess(flags)
	flags.BoolVar(&p.debug, "debug", false, "the same as --v=1")
	cmd.MarkFlagsRequiredTogether("tls-cert-file", "tls-private-key-file")
	cmd.PreRun = func(*cobra.Command, []string) {
		if p.debug {
			o.verbosity = max(o.verbosity, 1)
		}
	}
	o.tune = func(options *ctrl.Options) {
		options.Cache.ByObject = map[client.Object]cache.ByObject{&operatorsv1alpha1.CatalogSource{}: {Transform: slim}}
	}
}

func (p *packageServer) bindAccess(flags *pflag.FlagSet) {
	a := &p.served.Access
	flags.StringVar(&p.authenticationKubeconfig, "authentication-kubeconfig", "", "kubeconfig of the cluster that is asked who a token belongs to; unset: that of --kubeconfig")
	flags.StringVar(&p.authorizationKubeconfig, "authorization-kubeconfig", "", "kubeconfig of the cluster that is asked what is allowed; unset: that of --kubeconfig")
	flags.BoolVar(&a.SkipLookup, "authentication-skip-lookup", false, "do not read ConfigMap kube-system/extension-apiserver-authentication")
	flags.BoolVar(&a.TolerateLookupFailure, "authentication-tolerate-lookup-failure", false, "start when it cannot be read")
	flags.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", 10*time.Second, "how long it is believed who a token belongs to")
	flags.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", 10*time.Second, "how long it is believed that something is allowed")
	flags.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", 10*time.Second, "how long it is believed that something is not allowed")
	flags.StringSliceVar(&p.served.AlwaysAllow, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths that are answered whoever asks; one that ends in * stands for all that begin like it")
	flags.StringVar(&a.ClientCAFile, "client-ca-file", "", "authorities of users' client certificates; unset: those of the ConfigMap")
	h := &a.RequestHeader
	flags.StringVar(&h.ClientCAFile, "requestheader-client-ca-file", "", "authorities of the certificates of those who ask in the name of others; unset: these flags are taken from the ConfigMap")
	flags.StringSliceVar(&h.AllowedNames, "requestheader-allowed-names", nil, "names in those certificates; unset: all")
	flags.StringSliceVar(&h.UsernameHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "headers with the name of who asks")
	flags.StringSliceVar(&h.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "headers with their groups")
	flags.StringSliceVar(&h.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "beginnings of headers with what else is known of them")
}

// slim drops from CatalogSources what is not read, before it is held.
func slim(object any) (any, error) {
	if catalog, ok := object.(*operatorsv1alpha1.CatalogSource); ok {
		catalog.ManagedFields, catalog.Annotations = nil, nil
		catalog.Spec.Icon, catalog.Spec.Description = nil, ""
		catalog.Spec.GrpcPodConfig, catalog.Status.Conditions = nil, nil
	}
	return object, nil
}

func (p *packageServer) setup(ctx context.Context, o *options, mgr ctrl.Manager) error {
	p.served.Address = net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	p.served.Proxy = dial.ProxyFromEnvironment(os.Getenv)
	var err error
	if p.served.TLS, err = p.tls(mgr); err != nil {
		return err
	}
	if p.served.Authentication, err = clusterOf(o, "authentication-kubeconfig", p.authenticationKubeconfig); err != nil {
		return err
	}
	if p.served.Authorization, err = clusterOf(o, "authorization-kubeconfig", p.authorizationKubeconfig); err != nil {
		return err
	}

	return packageserver.Setup(ctx, mgr, p.served)
}

// clusterOf is the cluster of a kubeconfig that a flag names, nil when it names none.
func clusterOf(o *options, flag, kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, nil // It is that of the manager.
	}

	other := *o
	other.kubeconfig = kubeconfig
	config, err := other.restConfig()
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}

	return config, nil
}

var tlsVersions = map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

// tls is how packages are served.
func (p *packageServer) tls(mgr ctrl.Manager) (*tls.Config, error) {
	lowest, ok := tlsVersions[p.minVersion]
	if !ok {
		return nil, fmt.Errorf("--tls-min-version: %q is none of %s", p.minVersion, strings.Join(slices.Sorted(maps.Keys(tlsVersions)), ", "))
	}

	config := &tls.Config{MinVersion: lowest}
	for _, name := range p.cipherSuites {
		suite, err := cipherSuite(name)
		if err != nil {
			return nil, err
		}
		config.CipherSuites = append(config.CipherSuites, suite)
	}

	certFile, keyFile := p.certFile, p.keyFile
	if certFile == "" {
		certFile, keyFile = filepath.Join(p.certDir, "apiserver.crt"), filepath.Join(p.certDir, "apiserver.key")
		if _, err := os.Stat(certFile); err != nil {
			config.GetCertificate = (&ownCertificate{}).get
			return config, nil //nolint:nilerr // Nobody has made one.
		}
	}

	watched, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate to serve with: %w", err)
	}

	config.GetCertificate = watched.GetCertificate
	return config, mgr.Add(watched)
}

func cipherSuite(name string) (uint16, error) {
	for _, suite := range tls.CipherSuites() {
		if suite.Name == name {
			return suite.ID, nil
		}
	}
	return 0, fmt.Errorf("--tls-cipher-suites: %q is unknown or not safe", name)
}

// ownCertificate is a certificate of the server's own, which nobody else knows of. It lives as long as the
// process.
type ownCertificate struct {
	mu   sync.Mutex
	pair *certificate.Pair
}

const issuedFor = 365 * 24 * time.Hour

func (i *ownCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.pair == nil || now.After(i.pair.RenewAt()) {
		authority, err := certificate.NewAuthority("package-server", issuedFor, now)
		if err != nil {
			return nil, err
		}
		if i.pair, err = authority.Issue([]string{"localhost", "127.0.0.1"}, issuedFor, now); err != nil {
			return nil, err
		}
	}

	return i.pair.TLS(), nil
}
