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
	// drain is how long requests may go on after the service was asked to stop.
	drain = 20 * time.Second
	// maxHeader is the longest header of a request, in bytes: clients send a few hundred.
	maxHeader = 16 << 10
)

// limits bound what clients may ask for at once, of each server: 80 MB of connections at
// 20 KB each. A router or a load balancer may give all clients one address.
var limits = httpserver.Limits{Connections: 4096, ClientConnections: 1024, Requests: 1024, ClientRequests: 256}

// Run serves until the context ends, then lets requests finish. It fails when it cannot
// listen. If listening is not nil, it is told the address of each server.
func (s *Service) Run(ctx context.Context, listening func(name string, address net.Addr)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // When the second server cannot listen, the first one ends.
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

		listener = httpserver.LimitListener(listener, limits, observer)
		if server.certificate != nil {
			listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: server.certificate})
		}

		s.options.Log.Info("Listening", "for", server.name, "address", listener.Addr().String())
		if listening != nil {
			listening(server.name, listener.Addr())
		}

		handler := httpserver.Limit(server.handler, limits, observer)
		work.Go(func() error { return httpserver.Run(ctx, newServer(handler), listener, drain) })
	}

	work.Go(func() error {
		s.scanForever(ctx)
		return nil
	})
	return work.Wait()
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		Protocols:         httpserver.HTTP1(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute, // 2 MiB at 20 KB/s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
	}
}

// StatusHandler answers probes, and gives metrics. The paths are those of both programs
// that other implementations consist of.
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
