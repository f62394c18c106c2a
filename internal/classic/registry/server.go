package registry

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Limits for the resources that a client can bind. The size of an answer depends on its bundle.
const (
	// maxRequestBytes limits a request, which contains a few names of at most 253 bytes.
	maxRequestBytes = 64 << 10
	// maxHeaderBytes limits the metadata of a call.
	maxHeaderBytes = 64 << 10
	// maxConcurrentStreams limits the calls in flight of one connection; further calls wait at
	// the client. A call takes about 40 KiB, so that a connection takes 10 MiB.
	maxConcurrentStreams = 250
	// handshakeTimeout limits the handshake of a new connection.
	handshakeTimeout = 20 * time.Second
	// pingInterval and pingTimeout detect connections whose client has disappeared without closing
	// them.
	pingInterval = time.Minute
	pingTimeout  = 20 * time.Second
	// minClientPingInterval is how often a client may ping: the shortest interval that gRPC
	// allows clients to set.
	minClientPingInterval = 10 * time.Second
)

// newGRPCServer returns a gRPC server with all services of a catalog. database is set for a SQLite
// catalog.
func newGRPCServer(catalog *content.Content, database bool, log *slog.Logger) *grpc.Server {
	services := newCatalogServices(catalog, database)
	server := grpc.NewServer(serverOptions(&callLogger{log: log, onError: services.health.recordReadError})...)
	registrypb.RegisterRegistryServer(server, services.registry)
	registrypb.RegisterExperimentalRegistryServer(server, services.experimental)
	grpc_health_v1.RegisterHealthServer(server, services.health)
	reflection.Register(server) // for clients such as grpcurl, of both versions of the protocol

	return server
}

// serverOptions returns the limits of a gRPC server, which logs its calls.
func serverOptions(calls *callLogger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPingInterval, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(calls.interceptUnary),
		grpc.StreamInterceptor(calls.interceptStream),
	}
}

// catalogServices are the services of one catalog.
type catalogServices struct {
	registry     registrypb.RegistryServer
	experimental *experimentalService
	health       *healthService
}

func newCatalogServices(catalog *content.Content, database bool) catalogServices {
	services := catalogServices{
		registry: &registryService{content: catalog}, experimental: &experimentalService{content: catalog}, health: &healthService{},
	}
	if database {
		services.registry = &databaseService{registryService{content: catalog}}
	}
	return services
}

// healthService answers health probes. It ignores the service name in the request, and does not
// implement Watch, like upstream opm.
type healthService struct {
	grpc_health_v1.UnimplementedHealthServer

	contentUnreadable atomic.Bool
}

// Check returns SERVING until the content could not be read. A restart of the server, which
// rebuilds the content, helps then.
func (h *healthService) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if h.contentUnreadable.Load() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// recordReadError marks the server as not serving if the content could not be read.
func (h *healthService) recordReadError(err error) {
	var read *content.ReadError
	if errors.As(err, &read) {
		h.contentUnreadable.Store(true)
	}
}
