package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/console/session"
	"github.com/mainstay-dev/mainstay/web"
)

// consoleOptions are the flags of the console. It has no rights and no controllers, so it does not have the common flags
// of the other servers.
type consoleOptions struct {
	options
	address         string
	tlsCert, tlsKey string
	apiServer       apiServerOptions
	externalURL     string
	oidc            console.OIDCOptions
	// secretFile and caFile are files of the identity provider.
	secretFile, caFile string
	limits             session.Limits
	configDir          string
	// listening is called with the address of the console, if it is not nil.
	listening func(net.Addr)
}

// newConsoleCommand returns the command. listening is called with the address of the console, if it is not nil.
func newConsoleCommand(program string, listening func(net.Addr)) *cobra.Command {
	c := &consoleOptions{options: options{program: program}, listening: listening}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console to the users of a cluster",
		Long: `console serves the web console over HTTPS to the users of a cluster. Users sign in with an identity
provider (OIDC) or with a bearer token. Every request to the API server has the credentials of the user.
The console has no permissions of its own, and does not need a service account.

The certificate files are read again when they change. As long as they do not exist, or without
--tls-cert, the console issues its own certificate, which browsers do not trust.`,
		Example: `  mainstay run console --kubeconfig kubeconfig --tls-cert tls.crt --tls-key tls.key

  # Sign in with an identity provider that the API server trusts
  mainstay run console --external-url https://console.example.com \
    --oidc-issuer-url https://id.example.com --oidc-client-id kubernetes --oidc-client-secret-file client-secret`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Version:      program,
		PreRunE:      func(cmd *cobra.Command, _ []string) error { return readFlagFiles(cmd, c.configDir) },
		RunE:         func(cmd *cobra.Command, _ []string) error { return c.runConsole(cmd.Context()) },
	}

	c.addFlags(cmd.Flags())
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsRequiredTogether("oidc-issuer-url", "oidc-client-id")
	return cmd
}

func (c *consoleOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.address, "address", ":8443", "address to serve the console on over HTTPS")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "serving certificate (default: the console issues its own, which browsers do not trust)")
	flags.StringVar(&c.tlsKey, "tls-key", "", "private key of --tls-cert")
	flags.StringVar(&c.externalURL, "external-url", "", "URL at which users reach the console, for example https://console.example.com; required for OIDC")
	c.apiServer.addFlags(flags)
	flags.StringVar(&c.oidc.Issuer, "oidc-issuer-url", "", "URL of the identity provider, as in the flag of the API server (default: users paste a token)")
	flags.StringVar(&c.oidc.ClientID, "oidc-client-id", "", "client ID of the console at the identity provider; the API server must accept tokens for it")
	flags.StringVar(&c.secretFile, "oidc-client-secret-file", "", "file with the client secret (default: a public client)")
	flags.StringSliceVar(&c.oidc.Scopes, "oidc-scopes", []string{"profile", "email"}, "scopes in addition to openid; many providers need groups for groups, and offline_access to renew tokens")
	flags.StringVar(&c.caFile, "oidc-ca-file", "", "certificate authorities of the identity provider (default: those of the system)")
	flags.DurationVar(&c.limits.Idle, "session-idle-timeout", session.DefaultLimits.Idle, "how long a session lives without a request")
	flags.DurationVar(&c.limits.Lifetime, "session-lifetime", session.DefaultLimits.Lifetime, "how long a session lives at most")
	flags.IntVar(&c.limits.PerUser, "max-sessions-per-user", session.DefaultLimits.PerUser, "sessions of a user; the oldest ends when a further one begins")
	flags.IntVar(&c.limits.Total, "max-sessions", session.DefaultLimits.Total, "sessions of all users; further sign-ins are refused")
	flags.StringVar(&c.configDir, "config-dir", "", "directory with values of flags, such as a mounted ConfigMap: each file has the name of a flag; the command line has precedence")
	flags.StringVar(&c.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 disables them")
	flags.IntVarP(&c.verbosity, "v", "v", 0, "log verbosity, 0 to 4")
}

// readFlagFiles sets the flags that are not on the command line and that have a file in a directory, which need not
// exist. A file without a flag is an error, because a misspelled setting would otherwise have no effect. Hidden files are
// skipped: the kubelet keeps the content of a mounted ConfigMap in them.
func readFlagFiles(cmd *cobra.Command, dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--config-dir: %w", err)
	}

	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if err := readFlagFile(cmd, name, filepath.Join(dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("--config-dir: %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// readFlagFile sets a flag to the content of a file, unless the command line sets it. The error for a wrong value is that of the
// command line.
func readFlagFile(cmd *cobra.Command, name, file string) error {
	flag := cmd.Flags().Lookup(name)
	if flag == nil || name == "config-dir" || name == "help" || name == "version" {
		return errors.New("there is no such setting; the settings have the names of the flags in 'mainstay run console --help'")
	}
	if flag.Changed {
		return nil
	}

	value, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := cmd.Flags().Set(name, strings.TrimSpace(string(value))); err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	return nil
}

// apiServerOptions are the flags for the API server. The console uses no credentials of theirs.
type apiServerOptions struct {
	kubeconfig, url, caFile string
}

func (a *apiServerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig with the address of the API server; its credentials are not used")
	flags.StringVar(&a.url, "api-server", "", "URL of the API server (default: that of --kubeconfig, else that of the cluster in which the console runs)")
	flags.StringVar(&a.caFile, "api-server-ca", "", "certificate authorities of --api-server (default: those of the system)")
}

// newRESTConfig returns a configuration without credentials.
func (a *apiServerOptions) newRESTConfig() (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	address := a.url
	if address == "" && a.kubeconfig == "" && host != "" {
		address = "https://" + net.JoinHostPort(host, port)
	}

	if address == "" {
		config, err := (&options{kubeconfig: a.kubeconfig}).loadRESTConfig()
		if err != nil {
			return nil, err
		}
		return rest.AnonymousClientConfig(config), nil
	}

	if a.caFile != "" {
		if _, err := os.Stat(a.caFile); err != nil {
			return nil, fmt.Errorf("--api-server-ca: %w", err)
		}
	}
	return &rest.Config{Host: address, TLSClientConfig: rest.TLSClientConfig{CAFile: a.caFile}}, nil
}

// runConsole serves the console until the context ends.
func (c *consoleOptions) validate() error {
	return errors.Join(
		validateListenAddress("address", c.address),
		validateListenAddress("health-probe-bind-address", c.healthAddress),
		validateInterval("session-idle-timeout", c.limits.Idle),
		validateInterval("session-lifetime", c.limits.Lifetime),
	)
}

func (c *consoleOptions) runConsole(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}

	log := c.setupLogging()
	tuneGarbageCollector()
	signIn, err := c.newOIDC()
	if err != nil {
		return err
	}

	config, err := c.apiServer.newRESTConfig()
	if err != nil {
		return err
	}

	served, err := console.New(console.Options{
		Assets: web.Assets(), Config: config, OIDC: signIn, Version: c.program, Log: log, Limits: c.limits,
	})
	if err != nil {
		return err
	}

	work, ctx := errgroup.WithContext(ctx)
	certificate := newFileCertificate(c.tlsCert, c.tlsKey, log)
	work.Go(func() error { return certificate.run(ctx) })
	work.Go(func() error { reportReachability(ctx, config, log); return nil })
	servers := consoleServers{address: c.address, healthAddress: c.healthAddress, certificate: certificate.getCertificate, log: log, listening: c.listening}
	work.Go(func() error { return servers.serveConsole(ctx, served) })
	return work.Wait()
}

// newOIDC returns the sign-in with the identity provider of the flags, or nil without one.
func (c *consoleOptions) newOIDC() (*console.OIDC, error) {
	if c.oidc.Issuer == "" {
		return nil, nil // Users paste a token.
	}

	external, err := url.Parse(c.externalURL)
	if err != nil || external.Scheme != "https" || external.Host == "" || strings.Trim(external.Path, "/") != "" {
		return nil, fmt.Errorf("--external-url: %q must be an https URL without a path, because the identity provider sends users back to it", c.externalURL)
	}

	o := c.oidc
	o.RedirectURL = "https://" + external.Host + console.CallbackPath
	if c.secretFile != "" {
		secret, err := os.ReadFile(c.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		o.ClientSecret = strings.TrimSpace(string(secret))
	}

	if c.caFile != "" {
		if o.Client, err = newClientWithCA(c.caFile); err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
	}
	return console.NewOIDC(o)
}

// newClientWithCA returns an HTTP client that trusts the authorities in a file, in addition to those of the system.
func newClientWithCA(file string) (*http.Client, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("it contains no PEM certificate")
	}

	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport has been replaced")
	}
	transport = transport.Clone()
	transport.TLSClientConfig.RootCAs = pool
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

// reachabilityRetryInterval is the interval between attempts to reach the API server at the start.
const reachabilityRetryInterval = 10 * time.Second

// reportReachability logs whether the API server answers, until it does. The console serves in the meantime.
func reportReachability(ctx context.Context, config *rest.Config, log logr.Logger) {
	isReported := false
	for {
		err := pingAPIServer(ctx, config)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			log.Info("The API server answers", "server", config.Host)
			return
		case !isReported:
			log.Info("The API server does not answer; users cannot sign in until it does", "server", config.Host, "reason", err.Error())
			isReported = true
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(reachabilityRetryInterval):
		}
	}
}

// pingAPIServer returns an error unless the API server sends any response.
func pingAPIServer(ctx context.Context, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, reachabilityRetryInterval)
	defer cancel()
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(host, "/")+"/livez", http.NoBody)
	if err != nil {
		return err
	}

	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
