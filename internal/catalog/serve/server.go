package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

const (
	// drainTimeout is the time for requests in progress to complete after the server was stopped. It is
	// below the default termination grace period of a pod, 30 seconds.
	drainTimeout = 20 * time.Second
	// maxHeaderBytes is the maximum size of a request header. Clients of the API send a few hundred
	// bytes.
	maxHeaderBytes = 32 << 10
)

// Server serves a handler over HTTPS. It is a manager.Runnable that runs on every replica, because each
// replica has its own content.
type Server struct {
	// Address is the host and port to listen on, such as ":8443".
	Address string
	// Handler handles the requests.
	Handler http.Handler
	// Limits limit the connections. The limits of requests are applied by the handler.
	Limits Limits
	// GetCertificate returns the certificate for a new connection. It can return a renewed certificate
	// while the server runs.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log receives the errors of connections.
	Log logr.Logger

	listening atomic.Pointer[net.Addr]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start listens and serves until the context is done, then waits for requests in progress.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for catalog clients: %w", err)
	}

	address := listener.Addr()
	s.listening.Store(&address)
	defer context.AfterFunc(ctx, func() { s.listening.Store(nil) })()
	s.Log.Info("Serving catalogs", "address", address.String())
	if err := httpserver.Run(ctx, s.newHTTPServer(), newLimitedListener(listener, s.Limits), drainTimeout); err != nil {
		return fmt.Errorf("serving catalogs: %w", err)
	}

	return nil
}

// newLimitedListener wraps a listener with connection limits and batching of TLS records.
func newLimitedListener(l net.Listener, limits Limits) net.Listener {
	return corkingListener{httpserver.LimitListener(l, limits.WithDefaults(defaultLimits), observer)}
}

// newHTTPServer returns the HTTP server. The write deadline is set for each chunk.
func (s *Server) newHTTPServer() *http.Server {
	// HTTP/2 is disabled: a body takes twice the time, because HTTP/2 adds its own frames and flow control
	// to those of TLS and TCP.
	return &http.Server{
		Handler:           s.Handler,
		Protocols:         httpserver.HTTP1Protocols(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: s.GetCertificate,
			// Bodies are larger than one record, so records have full size from the start.
			DynamicRecordSizingDisabled: true,
		},
		ConnContext: contextWithCork,
		ErrorLog:    newErrorLog(s.Log),
	}
}

// Ready is a readiness check. It returns an error unless the server is listening.
func (s *Server) Ready(*http.Request) error {
	if s.listening.Load() == nil {
		return errors.New("the catalog server is not listening")
	}
	return nil
}

// ListenAddress returns the address that the server listens on, or nil if it is not listening.
func (s *Server) ListenAddress() net.Addr {
	if address := s.listening.Load(); address != nil {
		return *address
	}
	return nil
}
