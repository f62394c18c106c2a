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

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Limits of what a client can make the server hold. An answer is as large as its bundle.
const (
	// maxRequestBytes bounds a request, which is a few names of at most 253 bytes.
	maxRequestBytes = 64 << 10
	// maxHeaderBytes bounds the metadata of a call.
	maxHeaderBytes = 64 << 10
	// maxStreams bounds the calls that one connection has under way; further ones wait at
	// the client. A call holds about 40 KiB: 10 MiB.
	maxStreams = 250
	// handshake is how long a new connection may take to become one.
	handshake = 20 * time.Second
	// pingAfter and pingTimeout find connections whose client has gone without a word.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
	// minPing is how often a client may ping: the shortest time that gRPC lets it choose.
	minPing = 10 * time.Second
)

// newServer returns a server of all services for a catalog, which may be a SQLite catalog.
func newServer(catalog *content.Content, database bool, log *slog.Logger) *grpc.Server {
	state := &health{}
	calls := &callLog{log: log, failed: state.check}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(calls.unary),
		grpc.StreamInterceptor(calls.stream),
	)

	if database {
		registrypb.RegisterRegistryServer(server, &databaseService{service{content: catalog}})
	} else {
		registrypb.RegisterRegistryServer(server, &service{content: catalog})
	}

	registrypb.RegisterExperimentalRegistryServer(server, &experimental{content: catalog})
	grpc_health_v1.RegisterHealthServer(server, state)
	registerReflection(server)

	return server
}

// health tells probes whether the registry can answer. It does not ask which service they
// mean, and Watch is not implemented: no registry of the field has it.
type health struct {
	grpc_health_v1.UnimplementedHealthServer

	bad atomic.Bool
}

// Check reports whether the server can answer: until its content cannot be read any more.
// Starting it again helps against that.
func (h *health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if h.bad.Load() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// check looks at the error of a call.
func (h *health) check(err error) {
	var read *content.ReadError
	if errors.As(err, &read) {
		h.bad.Store(true)
	}
}
