package image

import (
	"context"
	"os"
	"os/user"
	"runtime"
	"sync"
	"time"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
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
	// Mirrors returns rules beside those of registries.conf. It is called for every
	// operation, so that what it gives may change. Nil: there are none.
	Mirrors func() []MirrorRule
	// SkipTLSVerify takes whatever certificate a registry shows.
	SkipTLSVerify bool
	// Insecure does so too, and reaches registries that do not speak TLS over plain HTTP.
	Insecure bool
	// RequestsPerSecond is how often each registry is asked at most on average, in bursts
	// of twice as many. Default 100, and no bound for a registry on this machine: pulling a
	// bundle takes about four requests, so that a program that went wrong is held back and
	// hardly anything else.
	RequestsPerSecond float64
	// UserAgent is sent to registries. Empty: "mainstay".
	UserAgent string
	// Architecture is chosen from multi-platform images, always with the OS linux, in
	// the words of GOARCH. Empty: the architecture that this program was built for.
	Architecture string
	// Transfers is how many images are unpacked at the same time, by this client and those
	// made from it; others wait, and their manifests are read meanwhile. Each takes up to 128
	// MiB of memory for a layer of the highest compression. Zero means no bound.
	Transfers int
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
	// Stall ends a connection that gave less than 16 KiB, and not the end, in so long: it is
	// begun again where it broke off, a few times. Default one minute.
	Stall time.Duration
	// Backoff is the first pause before something that failed is tried again; each further
	// one is twice as long. Default 250 ms.
	Backoff time.Duration
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
	// NameBytes is the length of the paths of all of them. Default 32 MiB: 160 bytes each.
	NameBytes int64
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
		NameBytes:   positive(l.NameBytes, 32<<20),
		PathBytes:   positive(l.PathBytes, 1024),
		Depth:       positive(l.Depth, 64),
	}
}

func positive[T int | int64 | float64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}

// Client talks to registries. It is safe for concurrent use and holds no connection or
// file between operations. It remembers how each registry wants to be asked: its pauses,
// its way to log in, and tokens that are still good.
type Client struct {
	opts   Options
	creds  *credentials
	shared *registry.Shared
	// transfers has an element for each image that is being unpacked; nil for no bound.
	transfers chan struct{}
}

// NewClient makes a client. It reads nothing: a file that cannot be read is an error of
// the operation that needs it.
func NewClient(opts Options) *Client {
	opts.Limits = opts.Limits.withDefaults()
	opts.Timeouts.Open = positive(opts.Timeouts.Open, 2*time.Minute)
	opts.Timeouts.Transfer = positive(opts.Timeouts.Transfer, 30*time.Minute)
	opts.Timeouts.Stall = positive(opts.Timeouts.Stall, time.Minute)
	opts.Timeouts.Backoff = positive(opts.Timeouts.Backoff, 250*time.Millisecond)
	if opts.UserAgent == "" {
		opts.UserAgent = "mainstay"
	}
	if opts.Architecture == "" {
		opts.Architecture = runtime.GOARCH
	}

	c := &Client{opts: opts, shared: registry.NewShared(positive(opts.RequestsPerSecond, 100), opts.Timeouts.Backoff)}
	if opts.Transfers > 0 {
		c.transfers = make(chan struct{}, opts.Transfers)
	}

	return c
}

// For returns a client like this one that chooses another architecture.
func (c *Client) For(architecture string) *Client {
	other := *c
	other.opts.Architecture = architecture
	return &other
}

// system says where the machine's files are.
func (c *Client) system() *types.SystemContext {
	ensureHome()
	// The library keeps registries.conf for the life of the process otherwise.
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

// sessionOptions are what sessions of one client differ in.
type sessionOptions struct {
	push bool // the right to upload is needed
	once bool // there is another place to ask
}

// session opens a place. Nothing is connected to yet.
func (c *Client) session(sys *types.SystemContext, place source, opts sessionOptions) (*registry.Session, error) {
	config, err := c.tlsConfig(sys, place)
	if err != nil {
		return nil, err
	}

	login, err := c.login(sys, place.name)
	if err != nil {
		return nil, err
	}

	return registry.NewSession(registry.Options{
		Host: place.name.domain, Repository: place.name.path,
		Push: opts.push, Once: opts.once, Insecure: place.insecure,
		Unlimited: c.opts.RequestsPerSecond <= 0 && isLoopback(place.name.domain),
		TLS:       config, Login: login, UserAgent: c.opts.UserAgent, Answer: c.opts.Timeouts.Stall, Shared: c.shared,
	}), nil
}

func (c *Client) secrets() []string {
	if c.creds == nil {
		return nil
	}
	return c.creds.secrets
}

// openContext makes the context of an operation that reads manifests.
func (c *Client) openContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeouts.Open)
}

// transferContext makes the context of an operation that moves layers.
func (c *Client) transferContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeouts.Transfer)
}

// startTransfer waits until an image may be unpacked, and makes the context of that. The
// caller calls end.
func (c *Client) startTransfer(ctx context.Context) (transfer context.Context, end func(), err error) {
	if c.transfers != nil {
		select {
		case c.transfers <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}

	transfer, cancel := c.transferContext(ctx)
	return transfer, func() {
		cancel()
		if c.transfers != nil {
			<-c.transfers
		}
	}, nil
}
