package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

const (
	// drain is how long requests may go on after the server was asked to stop. It is below the 30
	// seconds that a pod is given by default. Watches are cut off before.
	drain = 10 * time.Second
	// headerBytes is the longest header of a request: one names the groups of who asks.
	headerBytes = 256 << 10
	// maxStreams is how many requests one connection may have under way: watches of packages
	// by people and consoles, through the API server.
	maxStreams = 100
)

// Server serves a handler over HTTPS. It is a Runnable of a manager, on every replica.
type Server struct {
	// Address is the host and port to listen on, such as ":5443".
	Address string
	// Handler answers.
	Handler http.Handler
	// TLS has the certificate, and what clients must be able to.
	TLS *tls.Config
	// Listening, if set, is told the address once the server listens.
	Listening func(net.Addr)
	// Log is told of problems.
	Log logr.Logger
}

// NeedLeaderElection is false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start listens and serves until the context ends, then lets requests finish.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for requests for packages: %w", err)
	}

	s.Log.Info("Serving packages", "address", listener.Addr().String())
	if s.Listening != nil {
		s.Listening(listener.Addr())
	}

	secure := s.TLS.Clone()
	// Whose certificate it is, is found out request by request.
	secure.ClientAuth = tls.RequestClientCert
	server := &http.Server{
		Handler: s.Handler, TLSConfig: secure, MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: patience, IdleTimeout: 2 * time.Minute,
		// The API server asks over HTTP/2, and opens a further connection beyond this.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext: func(net.Listener) context.Context { return watching(ctx) },
		ErrorLog:    log.New(connections{s.Log}, "", 0),
	}
	if err := httpserver.Run(ctx, server, listener, drain); err != nil {
		return fmt.Errorf("serving packages: %w", err)
	}

	return nil
}

type stopKey struct{}

// watching returns a context for requests: one that does not end with that of the server, so that they
// can finish, but from which watches learn that it has.
func watching(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), stopKey{}, ctx.Done())
}

// stopping is closed once the server is told to stop.
func stopping(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{}) // Nil: it never does.
	return stop
}

// connections logs what goes wrong on single connections, of which probes and scanners leave many.
type connections struct{ log logr.Logger }

func (c connections) Write(text []byte) (int, error) {
	c.log.V(1).Info("A connection has failed", "error", strings.TrimSpace(string(text)))
	return len(text), nil
}
