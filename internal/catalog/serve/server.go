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
	// GetCertificate gives the certificate for each new connection, so that it can be
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
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.GetCertificate},
		ErrorLog:          newErrorLog(s.Log),
		// The time limit of a write is set chunk by chunk.
	}
	address := listener.Addr()
	s.listening.Store(&address)
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.listening.Store(nil)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		err := server.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	}()
	s.Log.Info("Serving catalogs", "address", address.String())
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving catalogs: %w", err)
	}
	return <-stopped
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
