package run

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// consoleServers are the HTTP servers of the console.
type consoleServers struct {
	address, healthAddress string
	certificate            func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	log                    logr.Logger
	listening              func(net.Addr)
}

const (
	// consoleGrace is how long running requests may take after the context has ended.
	consoleGrace = 20 * time.Second
	// consoleHeaderBytes is the maximum size of a request header.
	consoleHeaderBytes = 64 << 10
	// consoleStreams is the maximum number of concurrent requests on one connection of HTTP/2. All pages of a browser
	// share a connection, and each open page has a request for its changes.
	consoleStreams = 100
)

// consoleLimits are the limits of the console. A router or load balancer may have one address for all users, and each open
// page has a request for its changes.
var consoleLimits = httpserver.Limits{Connections: 4096, ClientConnections: 2048, Requests: 8192, ClientRequests: 4096}

// serveConsole serves the console and the probes until the context ends.
func (c *consoleServers) serveConsole(ctx context.Context, served *console.Server) error {
	work, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, served.Close) // ends the streams, which would keep the server from stopping
	defer stop()

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.address)
	if err != nil {
		return fmt.Errorf("serving the console: %w", err)
	}

	// The prefix __Host- and the attribute Secure of the cookies require HTTPS. HTTP/2 lets a browser have several pages
	// that follow changes: with HTTP/1.1 it has at most six connections.
	server := &http.Server{
		Handler:           httpserver.Limit(served, consoleLimits, httpserver.Observer{}),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.certificate},
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: consoleStreams},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    consoleHeaderBytes,
		// Browsers that do not trust the certificate are no errors of the console.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(c.log.V(1)), slog.LevelInfo),
	}
	c.log.Info("Listening", "for", "console", "address", listener.Addr().String())
	limited := httpserver.LimitListener(listener, consoleLimits, httpserver.Observer{})
	work.Go(func() error { return httpserver.Run(ctx, server, limited, consoleGrace) })
	if c.healthAddress != "" && c.healthAddress != "0" {
		work.Go(func() error { return c.serveProbes(ctx) })
	}

	if c.listening != nil {
		c.listening(listener.Addr())
	}
	return work.Wait()
}

// serveProbes serves /healthz and /readyz. Both succeed while the console serves: it also serves while the API server is
// down, to say so.
func (c *consoleServers) serveProbes(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.healthAddress)
	if err != nil {
		return fmt.Errorf("serving probes: %w", err)
	}

	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }) // the client may be gone
	}
	server := &http.Server{Handler: mux, Protocols: httpserver.HTTP1Protocols(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	return httpserver.Run(ctx, server, listener, consoleGrace)
}

// fileCertificate is a serving certificate in files, which are read again when they change. As long as they do not exist,
// it is a certificate that the server issues for itself.
type fileCertificate struct {
	certFile, keyFile string
	log               logr.Logger
	issued            selfIssuedCertificate
	watcher           atomic.Pointer[certwatcher.CertWatcher]
}

// newFileCertificate returns the certificate in files. The names may be empty.
func newFileCertificate(certFile, keyFile string, log logr.Logger) *fileCertificate {
	f := &fileCertificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := f.openFiles(); err != nil {
		log.Info("The certificate cannot be read; serving a certificate that browsers do not trust until it can be", "file", certFile, "reason", err.Error())
	}
	return f
}

// openFiles reads the files.
func (f *fileCertificate) openFiles() error {
	if f.certFile == "" {
		return nil
	}

	watcher, err := certwatcher.New(f.certFile, f.keyFile)
	if err == nil {
		f.watcher.Store(watcher)
	}
	return err
}

// certificateRetryInterval is the interval between attempts to read a certificate that did not exist.
const certificateRetryInterval = 5 * time.Second

// run follows changes of the files until the context ends.
func (f *fileCertificate) run(ctx context.Context) error {
	if f.certFile == "" {
		return nil
	}

	for f.watcher.Load() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(certificateRetryInterval):
		}
		if err := f.openFiles(); err == nil {
			f.log.Info("Serving the certificate", "file", f.certFile)
		}
	}
	return f.watcher.Load().Start(ctx)
}

func (f *fileCertificate) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if watcher := f.watcher.Load(); watcher != nil {
		return watcher.GetCertificate(hello)
	}
	return f.issued.getCertificate(hello)
}
