package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// Options configure a [Client]. The zero value works on every machine: where a file is
// not named, the places that all container tools share are read when they exist
// (/etc/containers and the home directory), and nothing is needed from them.
//
// Files are read again for every operation, so that a change needs no restart.
type Options struct {
	// RegistriesConf is a registries.conf (version 2) with mirrors, blocked and insecure
	// registries. It must exist when named. Empty: the shared places; none is fine.
	RegistriesConf string
	// RegistriesDir is a registries.d directory, which says where signatures are kept.
	// Empty: the shared places.
	RegistriesDir string
	// PolicyFile is a policy.json that says which images are accepted. It must exist when
	// named. Empty: the shared places; when they have none, every image is accepted.
	PolicyFile string
	// CertsDir has a directory <host[:port]> for each registry with its certificate
	// authorities (*.crt) and client certificates (*.cert, *.key). Empty: the shared places.
	CertsDir string
	// CADir has certificate authorities (*.crt, *.pem) that are trusted for every
	// registry, beside the system's. A missing or empty directory adds none.
	CADir string
	// AuthFile is a Docker config.json with credentials. A missing file has none.
	// Empty: the shared places, which include the home directory's.
	AuthFile string
	// UserAgent is sent to registries. Empty: "mainstay".
	UserAgent string
	// Architecture is chosen from multi-platform images, always with the OS linux, in
	// the words of GOARCH. Empty: the architecture that this program was built for.
	Architecture string
	// Limits bound what is unpacked. Fields that are zero have their default.
	Limits Limits
	// Timeouts bound how long operations take. Fields that are zero have their default.
	Timeouts Timeouts
}

// Timeouts bound how long operations take.
type Timeouts struct {
	// Open is for Resolve and Pull, which only read manifests. It includes the pauses that
	// a registry asks for by 429. Default two minutes.
	Open time.Duration
	// Transfer is for all of one Extract or Push. Default 30 minutes: 2 GiB of layers at
	// 10 Mbit/s.
	Transfer time.Duration
	// Stall ends a download that gave no byte for so long. Default one minute.
	Stall time.Duration
}

// Limits bound what one image may make this program do. Content over a limit is an error
// of [KindContent].
type Limits struct {
	// BlobBytes is the size of one compressed layer. Default 4 GiB.
	BlobBytes int64
	// StreamBytes is the size of all layers when decompressed, also of the parts that are
	// skipped: it ends compression bombs. Default 16 GiB; a catalog image with its base,
	// its server and its caches has about 2 GiB.
	StreamBytes int64
	// Entries counts all entries of all layers, also those that are skipped. Default one
	// million; a full distribution has about 100,000.
	Entries int
	// Layers counts the layers. Default 512; builders stop at 127.
	Layers int
	// Bytes is the size of all files written. Default 1 GiB; the largest public catalog
	// has about 250 MiB.
	Bytes int64
	// FileBytes is the size of one file written. Default 512 MiB: a catalog in one file.
	FileBytes int64
	// Files counts the files, directories and links written. Default 200,000; a catalog
	// of 5,000 packages with 20 files each has half of it.
	Files int
	// PathBytes is the length of one path. Default 1024.
	PathBytes int
	// Depth counts the elements of one path. Default 64.
	Depth int
}

const gib = 1 << 30

func (l Limits) withDefaults() Limits {
	return Limits{
		BlobBytes:   positive(l.BlobBytes, 4*gib),
		StreamBytes: positive(l.StreamBytes, 16*gib),
		Entries:     positive(l.Entries, 1_000_000),
		Layers:      positive(l.Layers, 512),
		Bytes:       positive(l.Bytes, gib),
		FileBytes:   positive(l.FileBytes, gib/2),
		Files:       positive(l.Files, 200_000),
		PathBytes:   positive(l.PathBytes, 1024),
		Depth:       positive(l.Depth, 64),
	}
}

func positive[T int | int64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}

// Client talks to registries. It is safe for concurrent use and holds no connection or
// file between operations.
type Client struct {
	opts  Options
	creds *credentials
}

// NewClient makes a client. It reads nothing: a file that cannot be read is an error of
// the operation that needs it.
func NewClient(opts Options) *Client {
	opts.Limits = opts.Limits.withDefaults()
	opts.Timeouts.Open = positive(opts.Timeouts.Open, 2*time.Minute)
	opts.Timeouts.Transfer = positive(opts.Timeouts.Transfer, 30*time.Minute)
	opts.Timeouts.Stall = positive(opts.Timeouts.Stall, time.Minute)
	if opts.UserAgent == "" {
		opts.UserAgent = "mainstay"
	}
	if opts.Architecture == "" {
		opts.Architecture = runtime.GOARCH
	}
	return &Client{opts: opts}
}

// system makes the library's context for one operation on one image. The returned
// function removes the temporary file with credentials, if any; it must be called when the
// operation's last request is done.
func (c *Client) system(named reference.Named) (*types.SystemContext, func(), error) {
	ensureHome()
	sys := &types.SystemContext{
		SystemRegistriesConfPath: c.opts.RegistriesConf,
		RegistriesDirPath:        c.opts.RegistriesDir,
		DockerPerHostCertDirPath: c.opts.CertsDir,
		AuthFilePath:             c.opts.AuthFile,
		DockerRegistryUserAgent:  c.opts.UserAgent,
		ArchitectureChoice:       c.opts.Architecture,
		OSChoice:                 "linux",
	}
	if err := c.trustCADir(sys); err != nil {
		return nil, nil, err
	}
	// The library keeps registries.conf for the life of the process otherwise.
	sysregistriesv2.InvalidateCache()
	registry, err := sysregistriesv2.FindRegistry(sys, named.Name())
	if err != nil {
		return nil, nil, faultf(KindDenied, "read the registries configuration: %w", err)
	}
	switch {
	case registry == nil && isLoopback(reference.Domain(named)) && !c.hasCerts(named):
		// As with every container tool, a registry on this machine may be plain HTTP or
		// self-signed: there is no network between. Configuring it makes it strict.
		sys.DockerInsecureSkipTLSVerify = types.OptionalBoolTrue
	case registry != nil && registry.Blocked:
		return nil, nil, faultf(KindDenied, "the registry %s is blocked by the registries configuration", registry.Prefix)
	}
	cleanup, err := c.creds.install(sys)
	if err != nil {
		return nil, nil, err
	}
	return sys, cleanup, nil
}

// ensureHome sets HOME to "/", as container runtimes do, where a process has none and its
// user has no entry in /etc/passwd. The library looks for settings there and fails without.
var ensureHome = sync.OnceFunc(func() {
	if os.Getenv("HOME") != "" {
		return
	}
	if account, err := user.Current(); err != nil || account.HomeDir == "" {
		_ = os.Setenv("HOME", "/")
	}
})

func (c *Client) secrets() []string {
	if c.creds == nil {
		return nil
	}
	return c.creds.secrets
}

func (c *Client) hasCerts(named reference.Named) bool {
	if c.opts.CertsDir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(c.opts.CertsDir, reference.Domain(named)))
	return err == nil
}

// trustCADir adds the certificate authorities of CADir to the system's. The library
// completes RootCAs by what CertsDir holds for a host, so the pool is made anew for each
// operation and never shared between two.
func (c *Client) trustCADir(sys *types.SystemContext) error {
	if c.opts.CADir == "" {
		return nil
	}
	entries, err := os.ReadDir(c.opts.CADir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); entry.IsDir() || (ext != ".crt" && ext != ".pem") {
			continue
		}
		file := filepath.Join(c.opts.CADir, entry.Name())
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read certificate authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read certificate authorities: %s holds no PEM certificate", file)
		}
	}
	sys.BaseTLSConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return nil
}

func isLoopback(domain string) bool {
	host := domain
	if h, _, err := net.SplitHostPort(domain); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// open makes the context of an operation that reads manifests.
func (c *Client) openContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeouts.Open)
}

// transferContext makes the context of an operation that moves layers.
func (c *Client) transferContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeouts.Transfer)
}
