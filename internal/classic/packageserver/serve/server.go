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
	// shutdownTimeout is how long requests may take after the server has begun to stop. It is
	// less than the default grace period of a pod, 30 s. Watches end immediately.
	shutdownTimeout = 10 * time.Second
	// maxHeaderBytes limits the header of a request, which contains the groups of the user.
	maxHeaderBytes = 256 << 10
	// maxConcurrentStreams limits the requests in flight on one connection: watches by users
	// and consoles, forwarded by the API server.
	maxConcurrentStreams = 100
)

// Server serves a handler over HTTPS. It is a Runnable of a manager and runs on every replica.
type Server struct {
	// Address is the listen address, such as ":5443".
	Address string
	// Handler handles the requests.
	Handler http.Handler
	// TLS has the serving certificate and the minimum TLS version and cipher suites.
	TLS *tls.Config
	// OnListening is called with the address when the server listens. It may be nil.
	OnListening func(net.Addr)
	// Log receives messages of the server.
	Log logr.Logger
}

// NeedLeaderElection returns false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start listens and serves until the context ends. It then waits for requests to finish.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for requests for packages: %w", err)
	}

	s.Log.Info("Serving packages", "address", listener.Addr().String())
	if s.OnListening != nil {
		s.OnListening(listener.Addr())
	}

	secure := s.TLS.Clone()
	// The Authenticator verifies client certificates for each request.
	secure.ClientAuth = tls.RequestClientCert
	server := &http.Server{
		Handler: s.Handler, TLSConfig: secure, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: writeTimeout, IdleTimeout: 2 * time.Minute,
		// The API server uses HTTP/2 and opens another connection beyond this limit.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxConcurrentStreams},
		BaseContext: func(net.Listener) context.Context { return newRequestContext(ctx) },
		ErrorLog:    log.New(connectionLogger{s.Log}, "", 0),
	}
	if err := httpserver.Run(ctx, server, listener, shutdownTimeout); err != nil {
		return fmt.Errorf("serving packages: %w", err)
	}

	return nil
}

type stopContextKey struct{}

// newRequestContext returns the base context of requests. It does not end with the server's
// context, so that requests can finish. Watches learn from serverStopped that the server stops.
func newRequestContext(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), stopContextKey{}, ctx.Done())
}

// serverStopped returns a channel that is closed when the server stops.
func serverStopped(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopContextKey{}).(<-chan struct{}) // A nil channel blocks forever.
	return stop
}

// connectionLogger logs errors of single connections at debug level. Probes and scanners cause
// many.
type connectionLogger struct{ log logr.Logger }

func (c connectionLogger) Write(text []byte) (int, error) {
	c.log.V(1).Info("Connection failed", "error", strings.TrimSpace(string(text)))
	return len(text), nil
}
