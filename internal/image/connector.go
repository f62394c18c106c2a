package image

import (
	"os"
	"os/user"
	"sync"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// connector opens sessions with registries, as the options and the configuration of the
// machine determine: mirrors, blocked registries, certificates and logins.
type connector struct {
	opts Options
	// creds are the logins that the caller passed. It may be nil.
	creds *credentials
	// shared is what the process remembers of each registry.
	shared *registry.Shared
}

// systemContext returns the library's configuration with the paths of the options. It drops
// the library's cache of registries.conf, so that a changed file takes effect.
func (c *connector) systemContext() *types.SystemContext {
	ensureHome()
	// Otherwise, the library caches registries.conf for the life of the process.
	sysregistriesv2.InvalidateCache()
	return &types.SystemContext{
		SystemRegistriesConfPath: c.opts.RegistriesConf,
		RegistriesDirPath:        c.opts.RegistriesDir,
		DockerPerHostCertDirPath: c.opts.CertsDir,
		AuthFilePath:             c.opts.AuthFile,
		DockerRegistryUserAgent:  c.opts.UserAgent,
		ArchitectureChoice:       c.opts.Architecture,
		OSChoice:                 "linux",
	}
}

// ensureHome sets HOME to "/", as container runtimes do, when a process has no HOME and its
// user has no entry in /etc/passwd. The library reads settings in the home directory and
// fails without one.
var ensureHome = sync.OnceFunc(func() {
	if os.Getenv("HOME") != "" {
		return
	}
	if account, err := user.Current(); err != nil || account.HomeDir == "" {
		_ = os.Setenv("HOME", "/")
	}
})

// sessionOptions are the options in which sessions of one client differ.
type sessionOptions struct {
	push          bool // requests permission to upload
	singleAttempt bool // no retries, because there is another source to ask
}

// newSession returns a session with the repository of source. It does not connect yet.
func (c *connector) newSession(sys *types.SystemContext, place pullSource, opts sessionOptions) (*registry.Session, error) {
	config, err := c.newTLSConfig(sys, place)
	if err != nil {
		return nil, err
	}

	login, err := c.findRegistryLogin(sys, place.name)
	if err != nil {
		return nil, err
	}

	return registry.NewSession(registry.Options{
		Host: place.name.domain, Repository: place.name.path,
		Push: opts.push, SingleAttempt: opts.singleAttempt, Insecure: place.insecure,
		Unlimited: c.opts.RequestsPerSecond <= 0 && isLoopbackHost(place.name.domain),
		TLS:       config, Login: login, UserAgent: c.opts.UserAgent, ResponseTimeout: c.opts.Timeouts.Stall, Shared: c.shared,
	}), nil
}

// newPushSession returns a session with the repository of a reference, never with a mirror
// of it. It returns an error if the registry is blocked.
func (c *connector) newPushSession(named imageReference) (*registry.Session, error) {
	sys := c.systemContext()
	configured, err := c.findRegistryConfig(sys, named.repository())
	if err != nil {
		return nil, err
	}
	if configured != nil && configured.Blocked {
		return nil, kindErrorf(KindDenied, "the registry %s is blocked by the registries configuration", configured.Prefix)
	}

	insecure, err := c.allowsInsecureAccess(sys, named)
	if err != nil {
		return nil, err
	}

	return c.newSession(sys, pullSource{name: named, insecure: insecure}, sessionOptions{push: true})
}

// operationError returns err as an error of an operation, without the secrets of the logins.
func (c *connector) operationError(operation, ref string, err error) error {
	if c.creds == nil {
		return wrapOperationError(operation, ref, err)
	}
	return wrapOperationError(operation, ref, err, c.creds.secrets...)
}
