package updateservice

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

const (
	// shutdownTimeout is how long running requests may take after the context has ended.
	shutdownTimeout = 20 * time.Second
	// maxHeaderBytes is the maximum size of a request header. Clients send a few hundred bytes.
	maxHeaderBytes = 16 << 10
)

// requestLimits are the limits of each server: 80 MB of connections at 20 KB each. A router or
// load balancer may have one address for all clients.
var requestLimits = httpserver.Limits{Connections: 4096, ClientConnections: 1024, Requests: 1024, ClientRequests: 256}

// Run serves until the context ends, and then waits for running requests. It returns an error if
// it cannot listen. If listening is not nil, it is called with the address of each server.
func (s *Service) Run(ctx context.Context, listening func(name string, address net.Addr)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // If the second server cannot listen, the first one is stopped.
	work, ctx := errgroup.WithContext(ctx)
	observer := httpserver.Observer{Refused: func(limit string) { s.metrics.refusedRequests.WithLabelValues(limit).Inc() }}
	for _, server := range []struct {
		name, address string
		handler       http.Handler
		certificate   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	}{
		{"graphs", s.options.Address, s.Handler(), s.options.Certificate},
		{"status", s.options.StatusAddress, s.StatusHandler(), nil},
	} {
		if server.address == "" || server.address == "0" {
			continue
		}

		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", server.address)
		if err != nil {
			return fmt.Errorf("listening for requests for %s: %w", server.name, err)
		}

		listener = httpserver.LimitListener(listener, requestLimits, observer)
		if server.certificate != nil {
			listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: server.certificate})
		}

		s.options.Log.Info("Listening", "for", server.name, "address", listener.Addr().String())
		if listening != nil {
			listening(server.name, listener.Addr())
		}

		handler := httpserver.Limit(server.handler, requestLimits, observer)
		work.Go(func() error { return httpserver.Run(ctx, newHTTPServer(handler), listener, shutdownTimeout) })
	}

	work.Go(func() error {
		s.scanPeriodically(ctx)
		return nil
	})
	return work.Wait()
}

func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		Protocols:         httpserver.HTTP1Protocols(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute, // 2 MiB at 20 KB/s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// StatusHandler returns the handler of probes and metrics. The paths are those of the two
// programs of the OpenShift Update Service.
func (s *Service) StatusHandler() http.Handler {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) } // The client may be gone.
	ready := func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		alive(w, r)
	}

	for path, handle := range map[string]http.HandlerFunc{
		"/livez": alive, "/liveness": alive, "/healthz": alive, "/readyz": ready, "/readiness": ready,
	} {
		mux.HandleFunc("GET "+path, handle)
	}

	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
