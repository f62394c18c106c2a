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
	// drain is how long requests may go on after the server was asked to stop. It is
	// below the 30 seconds that a pod is given by default.
	drain = 20 * time.Second
	// headerBytes is the longest header of a request: no client of the contract sends
	// more than a few hundred bytes.
	headerBytes = 32 << 10
)

// Server serves a handler over HTTPS. It is a Runnable of a manager, on every replica:
// each has content of its own.
type Server struct {
	// Address is the host and port to listen on, such as ":8443".
	Address string
	// Handler answers.
	Handler http.Handler
	// Limits bound the connections. Those of requests are the handler's.
	Limits Limits
	// GetCertificate returns the certificate for each new connection, so that it can be
	// replaced while the server runs.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log is told of problems with connections.
	Log logr.Logger

	listening atomic.Pointer[net.Addr]
}

// NeedLeaderElection is false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start listens and serves until the context ends, then lets requests finish.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for readers of catalogs: %w", err)
	}

	address := listener.Addr()
	s.listening.Store(&address)
	defer context.AfterFunc(ctx, func() { s.listening.Store(nil) })()
	s.Log.Info("Serving catalogs", "address", address.String())
	if err := httpserver.Run(ctx, s.httpServer(), limitListener(listener, s.Limits), drain); err != nil {
		return fmt.Errorf("serving catalogs: %w", err)
	}

	return nil
}

// limitListener returns the listener that the server accepts its connections from.
func limitListener(l net.Listener, limits Limits) net.Listener {
	return corkingListener{httpserver.LimitListener(l, limits.Or(defaultLimits), observer)}
}

// httpServer makes the server. The time limit of a write is set chunk by chunk.
func (s *Server) httpServer() *http.Server {
	// A body takes twice the time over HTTP/2, which has frames and windows of its own above
	// those of TLS and TCP.
	return &http.Server{
		Handler:           s.Handler,
		Protocols:         httpserver.HTTP1(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: s.GetCertificate,
			// Records are full from the first on: bodies are larger than one.
			DynamicRecordSizingDisabled: true,
		},
		ConnContext: withCork,
		ErrorLog:    newErrorLog(s.Log),
	}
}

// Ready is a health check: it fails until the server listens, and once it stops.
func (s *Server) Ready(*http.Request) error {
	if s.listening.Load() == nil {
		return errors.New("the catalog server does not listen yet")
	}
	return nil
}

// ListenAddress is the address that the server listens on, nil before.
func (s *Server) ListenAddress() net.Addr {
	if address := s.listening.Load(); address != nil {
		return *address
	}
	return nil
}
