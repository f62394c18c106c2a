// Package server is the component machine-config-server: it serves the rendered configuration of a pool to new machines,
// where Ignition applies it at the first boot.
//
// Clients are not authenticated: a new machine has no credentials yet. Therefore nothing secret is served. MachineConfigs contain
// no secrets, and the program cannot read other objects. The cluster trusts a machine only after its certificate signing request
// is approved. There is one exception: an administrator can add a kubeconfig with which machines create that request. It is served
// only over TLS, and its account should have no other rights.
//
// The server writes nothing. Package internal/node/daemon manages a machine after its first boot.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

const (
	// DefaultAddress is the address for machines, over TLS. Their first configurations contain the port.
	DefaultAddress = ":22623"
	// DefaultPlainAddress is the address without TLS, which only this machine reaches.
	DefaultPlainAddress = "127.0.0.1:22624"
)

// limits are the limits of each listener. A load balancer may have one address for all machines. A machine sends one request, so
// its connection is closed after the response.
var limits = httpserver.Limits{Connections: 512, ClientConnections: 128, Requests: 256, ClientRequests: 64}

const (
	// maxHeaderBytes is the maximum size of a request header. Ignition sends a few hundred bytes.
	maxHeaderBytes = 8 << 10
	// writeTimeout is the timeout of a response: 4 MiB at 70 KB/s.
	writeTimeout = time.Minute
	// shutdownTimeout is how long running requests may take after the context has ended.
	shutdownTimeout = 20 * time.Second
)

var requests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "mainstay_machine_config_server_requests_total", Help: "Requests for configurations and of probes, by method and status.",
}, []string{"method", "code"})

var refused = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "mainstay_machine_config_server_refused_total", Help: "Connections and requests refused because a limit was reached, by limit.",
}, []string{"limit"})

// observer counts what the limits refuse.
var observer = httpserver.Observer{Refused: func(limit string) { refused.WithLabelValues(limit).Inc() }}

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(requests, refused) })

// Options configure the server. One of the addresses is required.
type Options struct {
	// Address is the listen address for requests over TLS. An empty address or 0 disables it.
	Address string
	// Certificate returns the serving certificate of Address for each connection. It is required with Address.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// PlainAddress is the listen address for requests without TLS. An empty address or 0 disables it.
	PlainAddress string
	// Kubeconfig is a file that is added to configurations that are served over TLS. It may be empty.
	Kubeconfig string
	// Listening is called with the scheme, https or http, and the address of each listener. It may be nil.
	Listening func(scheme string, address net.Addr)
}

// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs;machineconfigpools,verbs=list;watch

// Setup adds the server to a manager. The server listens on every replica once the cache of the manager has all pools and
// configurations.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	s := &server{Options: o, reader: mgr.GetClient(), log: mgr.GetLogger().WithName("machine-config-server")}
	switch {
	case !isEnabled(o.Address) && !isEnabled(o.PlainAddress):
		return errors.New("setting up machine-config-server: both addresses are disabled")
	case isEnabled(o.Address) && o.Certificate == nil:
		return errors.New("setting up machine-config-server: a certificate is required to serve over TLS")
	}

	registerMetrics()

	// The cache must have these kinds before the server starts.
	for _, object := range []client.Object{&mcfgv1.MachineConfigPool{}, &mcfgv1.MachineConfig{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return fmt.Errorf("setting up machine-config-server: %w", err)
		}
	}
	return mgr.Add(s)
}

// isEnabled reports whether an address is one to listen on.
func isEnabled(address string) bool { return address != "" && address != "0" }

// server is the runnable of the manager.
type server struct {
	Options

	reader client.Reader
	log    logr.Logger
}

// NeedLeaderElection is false: every replica serves.
func (*server) NeedLeaderElection() bool { return false }

// Start serves until the context ends, and then waits for running requests.
func (s *server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // If the second server cannot listen, the first one is stopped.
	work, ctx := errgroup.WithContext(ctx)
	renders := make(chan struct{}, maxConcurrentRenders)
	for _, l := range []struct{ scheme, address, kubeconfig string }{
		{"https", s.Address, s.Kubeconfig}, {"http", s.PlainAddress, ""},
	} {
		if !isEnabled(l.address) {
			continue
		}

		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.address)
		if err != nil {
			return fmt.Errorf("listening for new machines: %w", err)
		}

		s.log.Info("Listening for new machines", "scheme", l.scheme, "address", listener.Addr().String())
		if s.Listening != nil {
			s.Listening(l.scheme, listener.Addr())
		}

		listener = httpserver.LimitListener(listener, limits, observer)
		if l.scheme == "https" {
			listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate})
		}

		limited := httpserver.Limit(newHandler(s.reader, s.log, l.kubeconfig, renders), limits, observer)
		handler := promhttp.InstrumentHandlerCounter(requests, limited)
		work.Go(func() error {
			if err := httpserver.Run(ctx, s.httpServer(handler), listener, shutdownTimeout); err != nil {
				return fmt.Errorf("serving new machines: %w", err)
			}
			return nil
		})
	}

	return work.Wait()
}

func (s *server) httpServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeaderBytes, Protocols: httpserver.HTTP1Protocols(),
		// Connections that are closed without a request are logged only at a high verbosity.
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.log.V(1)), slog.LevelInfo),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTimeout,
	}

	server.SetKeepAlivesEnabled(false)
	return server
}
