// Package server is the component machine-config-server: it serves the rendered configuration of a pool to new machines,
// where Ignition applies it at the first boot.
//
// Who asks is not known, and cannot be: the machine has nothing yet to prove itself with. So nothing
// is given that is secret. MachineConfigs hold no secrets, this program may read nothing else, and
// what proves a machine is the approval of its certificate's request. The one exception is made by
// the administrator, who may have a kubeconfig given to machines to make that request with: over TLS
// alone, and its account should have the right to make such requests, and no other.
//
// It changes nothing. What happens on a machine after its first boot is in internal/node/daemon.
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
	// DefaultAddress is where machines ask, over TLS. Their first configurations name the port.
	DefaultAddress = ":22623"
	// DefaultPlainAddress is where the same is given in the clear, to this machine alone.
	DefaultPlainAddress = "127.0.0.1:22624"
)

// limits bound what machines may ask for at once, at each address. A load balancer may give
// all machines one address. Each asks once, so that its connection is closed after the answer.
var limits = httpserver.Limits{Connections: 512, ClientConnections: 128, Requests: 256, ClientRequests: 64}

const (
	// maxHeader is the longest header of a request, in bytes: Ignition sends a few hundred.
	maxHeader = 8 << 10
	// writeTime is how long an answer may take: 4 MiB at 70 KB/s.
	writeTime = time.Minute
	// stopTime is how long requests may go on after the program was asked to stop.
	stopTime = 20 * time.Second
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

// Options are what the server is set up with. One of the addresses is required.
type Options struct {
	// Address is where configurations are given over TLS. Empty or 0 turns it off.
	Address string
	// Certificate is what is shown there. Required with Address.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// PlainAddress is where they are given in the clear. Empty or 0 turns it off.
	PlainAddress string
	// Kubeconfig is a file that machines get beside their configuration, over TLS alone. Empty
	// means none.
	Kubeconfig string
	// Listening, if it is not nil, is told each address: https or http, and which.
	Listening func(scheme string, address net.Addr)
}

// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs;machineconfigpools,verbs=list;watch

// Setup adds the server to a manager. It answers when the manager's cache knows all pools and
// configurations, and on every replica.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	s := &server{Options: o, reader: mgr.GetClient(), log: mgr.GetLogger().WithName("machine-config-server")}
	switch {
	case !isOn(o.Address) && !isOn(o.PlainAddress):
		return errors.New("setting up machine-config-server: both addresses are turned off")
	case isOn(o.Address) && o.Certificate == nil:
		return errors.New("setting up machine-config-server: a certificate is required to serve over TLS")
	}

	registerMetrics()

	// What is read later is to be in the cache when it starts.
	for _, object := range []client.Object{&mcfgv1.MachineConfigPool{}, &mcfgv1.MachineConfig{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return fmt.Errorf("setting up machine-config-server: %w", err)
		}
	}
	return mgr.Add(s)
}

func isOn(address string) bool { return address != "" && address != "0" }

type server struct {
	Options

	reader client.Reader
	log    logr.Logger
}

// NeedLeaderElection is false: every replica serves.
func (*server) NeedLeaderElection() bool { return false }

// Start serves until the context ends, and lets requests finish.
func (s *server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // When the second address cannot be listened on, the first one ends.
	work, ctx := errgroup.WithContext(ctx)
	answers := make(chan struct{}, maxConcurrentAnswers)
	for _, l := range []struct{ scheme, address, kubeconfig string }{
		{"https", s.Address, s.Kubeconfig}, {"http", s.PlainAddress, ""},
	} {
		if !isOn(l.address) {
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

		limited := httpserver.Limit(newHandler(s.reader, s.log, l.kubeconfig, answers), limits, observer)
		handler := promhttp.InstrumentHandlerCounter(requests, limited)
		work.Go(func() error {
			if err := httpserver.Run(ctx, s.httpServer(handler), listener, stopTime); err != nil {
				return fmt.Errorf("serving new machines: %w", err)
			}
			return nil
		})
	}

	return work.Wait()
}

func (s *server) httpServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeader, Protocols: httpserver.HTTP1Protocols(),
		// Connections that are closed without a request are logged only at a high verbosity.
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.log.V(1)), slog.LevelInfo),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTime,
	}

	server.SetKeepAlivesEnabled(false)
	return server
}
